//! A small web server with pages of both designs, as JSON. It does the same for both, except reading the page.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, ensure};
use futures_util::future::try_join;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

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

/// A running server. Dropping it ends it.
pub(super) struct Server {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(reader: Reader, pages: Vec<Page>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let site = Arc::new(Site { reader, pages });
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let site = site.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| site.answer(request));
                    // If the connection breaks, the caller sees the error.
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        Ok(Self { address, server })
    }

    pub(super) fn url(&self, page: usize) -> String {
        format!("http://{}/{page}", self.address)
    }

    /// What a page shows.
    pub(super) async fn page(&self, page: usize) -> anyhow::Result<Value> {
        let (status, body) = http::get(self.address, &format!("/{page}")).await?;
        ensure!(status == StatusCode::OK, "page {page} is answered {status}");
        Ok(serde_json::from_slice(&body)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.server.abort();
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
