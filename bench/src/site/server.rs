//! A small web server with pages of both designs, as JSON. It does the same for both, except reading the page.

use std::sync::Arc;

use anyhow::{Context, ensure};
use futures_util::future::try_join;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
};
use serde_json::Value;

use crate::{
    compare::{Ask, Reader, page_json},
    http,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Design {
    Pagemark,
    FourIndexes,
}

/// A page at its address, which is its number among the server's pages.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) design: Design,
    pub(super) with_total: bool,
    pub(super) ask: Ask,
}

/// A running server of pages. Dropping it ends it.
pub(super) struct PageServer(http::Server);

impl PageServer {
    pub(super) async fn start(reader: Reader, pages: Vec<Page>) -> anyhow::Result<Self> {
        let site = Arc::new(Site { reader, pages });
        let answer = move |request| {
            let site = site.clone();
            async move { site.answer(request).await }
        };
        Ok(Self(http::Server::start(answer).await?))
    }

    pub(super) fn url(&self, page: usize) -> String {
        format!("http://{}/{page}", self.0.address)
    }

    /// What a page shows.
    pub(super) async fn page(&self, page: usize) -> anyhow::Result<Value> {
        let (status, body) = http::get(self.0.address, &format!("/{page}")).await?;
        ensure!(status == StatusCode::OK, "page {page} is answered {status}");
        Ok(serde_json::from_slice(&body)?)
    }
}

struct Site {
    reader: Reader,
    pages: Vec<Page>,
}

impl Site {
    async fn answer(&self, request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
        let number = request.uri().path().trim_start_matches('/').parse::<usize>().ok();
        let page = number.and_then(|number| self.pages.get(number)).context("an unknown page")?;
        Ok(Response::new(Full::new(self.read(page).await?.into())))
    }

    async fn read(&self, Page { design, with_total, ask }: &Page) -> anyhow::Result<String> {
        let Self { reader, .. } = self;
        let (comments, total) = match (design, with_total) {
            (Design::Pagemark, false) => (reader.pages.page_after(&ask.listing, None).await?, None),
            // The reader refuses a total of the page index that is not the listing's.
            (Design::Pagemark, true) => (reader.pagemark(ask).await?, Some(ask.listing.total())),
            (Design::FourIndexes, false) => (reader.four_index(ask, false).await?.comments, None),
            (Design::FourIndexes, true) => {
                let (page, total) = try_join(reader.four_index(ask, false), reader.four_index_total(ask)).await?;
                (page.comments, Some(total))
            }
        };
        // A link to the next page is left out, in favour of four indexes: their cursor is longer than a page number.
        Ok(page_json(&comments, None, total))
    }
}
