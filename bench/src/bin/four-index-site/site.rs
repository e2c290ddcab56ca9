//! The pages.

use std::net::SocketAddr;

use actix_web::{
    HttpRequest, HttpResponse,
    error::{ErrorBadRequest, ErrorInternalServerError},
    web,
};
use api::{
    ApiSettings, Application, StartError,
    comparison::{self, ComparedPage},
    links,
};
use four_index::{Counters, Cursor, Error, FourIndexTable, PageQuery};
use model::{Filter, Language, PageNumber, PageSize, ProductId, Rating};
use serde::Deserialize;
use stores::{Table, page_index::Stats};

/// What a thread serves from.
struct Reader {
    table: FourIndexTable,
    skip_empty: bool,
}

/// What a link to a further page says.
#[derive(Debug, Deserialize)]
struct Parameters {
    cursor: Option<String>,
    page: Option<u64>,
}

/// The service, bound to its address.
pub(super) fn application(
    listen: SocketAddr,
    table: Table,
    settings: ApiSettings,
    skip_empty: bool,
) -> Result<Application, StartError> {
    let of_threads = table.clone();
    comparison::application(listen, table, settings, move |config| {
        // Connections of each thread's own, as the API has them.
        let table = of_threads.with_own_connections();
        let table = FourIndexTable::new(table.client().clone(), table.name());
        config.app_data(web::Data::new(Reader { table, skip_empty }));
        for path in ["/product/{product}/comments", "/product/{product}/comments/{filter:.*}"] {
            comparison::serve(config, path, web::get().to(page));
        }
    })
}

async fn page(
    request: HttpRequest,
    parameters: web::Query<Parameters>,
    reader: web::Data<Reader>,
) -> Result<HttpResponse, actix_web::Error> {
    let (product, filter) = comparison::read_address(&request)?;
    let query = PageQuery { product, filter, page_size: PageSize::default(), skip_empty: reader.skip_empty };
    let cursor = parameters.cursor.as_deref().map(|text| Cursor::decode(text, &query));
    let cursor = cursor.transpose().map_err(ErrorBadRequest)?;
    let number = PageNumber::new(parameters.page.unwrap_or(1)).map_err(ErrorBadRequest)?;
    let page = reader.table.page(&query, cursor.as_ref());
    let (page, statistics) = tokio::try_join!(page, reader.table.statistics(&query.product)).map_err(refusal)?;
    let PageQuery { product, filter, .. } = query;
    let next = page.next.map(|cursor| next_page(&product, &filter, &cursor, number));
    let (total, stats) = counted(&filter, &statistics);
    comparison::answer(&request, ComparedPage { product, filter, number, comments: page.comments, total, stats, next })
}

/// Where the page after this one is.
fn next_page(product: &ProductId, filter: &Filter, cursor: &Cursor, number: PageNumber) -> String {
    let path = links::page(product, filter, PageNumber::FIRST);
    format!("{path}?cursor={}&page={}", cursor.encode(), number.get() + 1)
}

/// How many comments the filter matches, and the statistics as a page shows them.
fn counted(filter: &Filter, statistics: &[(Option<Language>, Counters)]) -> (u64, Stats) {
    let of = |wanted: Option<&Language>| {
        let found = statistics.iter().find(|(language, _)| language.as_ref() == wanted);
        found.map(|(_, counters)| *counters).unwrap_or_default()
    };
    let by_rating = |counters: Counters| Rating::ALL.map(|rating| (rating, counters.get(rating))).to_vec();
    let wanted = of(filter.language());
    let of_filter = |counters: Counters| match filter.ratings() {
        None => counters.total,
        Some(ratings) => ratings.iter().map(|rating| counters.get(rating)).sum(),
    };
    // As the page index has them: a language without comments is none of the product's.
    let of_languages = statistics.iter().filter(|(_, counters)| counters.total > 0);
    let of_languages = of_languages.filter_map(|(language, counters)| Some((language.clone()?, of_filter(*counters))));
    let by_language: Vec<(Language, u64)> = of_languages.collect();
    let stats = Stats {
        by_rating: by_rating(wanted),
        by_rating_in_any_language: by_rating(of(None)),
        languages: u64::try_from(by_language.len()).unwrap_or(u64::MAX),
        by_language,
        last_commented_at: None,
    };
    (of_filter(wanted), stats)
}

fn refusal(error: Error) -> actix_web::Error {
    match error {
        Error::Store(error) => comparison::unavailable(error),
        Error::Cursor(error) => ErrorBadRequest(error),
        // No page writes.
        error @ (Error::Exists | Error::Changed | Error::NoEdit(_)) => ErrorInternalServerError(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicU64};

    use api::SiteSettings;
    use four_index::KeepCounters;
    use http_body_util::{BodyExt, Empty};
    use hyper::{Request, body::Bytes, client::conn::http1};
    use hyper_util::rt::TokioIo;
    use local_stack::{
        demo::{demo_comments, top_product},
        import,
        stack::{Stack, StackSettings},
    };
    use model::{Comment, Revision};
    use stores::{table::NewComment, table::TableConfig};
    use tokio::{net::TcpStream, sync::oneshot};

    use super::*;

    const PUBLIC_URL: &str = "https://comments.example.com";

    async fn get(address: &str, path: &str) -> (u16, String) {
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(TcpStream::connect(address).await.unwrap())).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(path).header("host", address).body(Empty::<Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// The comments that a page shows.
    fn articles(html: &str) -> Vec<&str> {
        html.split("<article ").skip(1).map(|part| part.split("</article>").next().unwrap()).collect()
    }

    /// Where its link to the next page leads.
    fn next(html: &str) -> Option<String> {
        let link = html.split("<link rel=\"next\" href=\"").nth(1)?;
        Some(link.split('"').next().unwrap().replace("&amp;", "&").replace("&#38;", "&"))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn both_designs_show_the_same_pages() {
        let comments: Vec<NewComment> = demo_comments(300).collect();
        let settings = StackSettings {
            site: SiteSettings { public_url: PUBLIC_URL.parse().ok(), ..SiteSettings::default() },
            ..StackSettings::ephemeral("a-token-of-this-test".parse().unwrap())
        };
        let mut stack = Stack::start(settings).await.unwrap();
        stack.wait_until_index_ready().await.unwrap();
        let source = import::Source::of_comments(comments.clone());
        import::import(stack.table(), source, &Arc::new(AtomicU64::new(0))).await.unwrap();
        stack.settle().await;

        let endpoint = stack.dynamodb_url().to_owned();
        let table = Table::connect(&TableConfig::new("four-index", Some(endpoint))).await;
        let four = FourIndexTable::new(table.client().clone(), table.name());
        four.create().await.unwrap();
        for comment in comments {
            let NewComment { id, product, language, rating, created_at, text } = comment;
            let revision = Revision::after(None, created_at, 0);
            let comment = Comment { id, product, language, rating, created_at, revision, text };
            four.insert(&comment, KeepCounters::Yes).await.unwrap();
        }
        let site = SiteSettings { public_url: PUBLIC_URL.parse().ok(), ..SiteSettings::default() };
        let settings = ApiSettings { site, ..ApiSettings::default() };
        let application = application(([127, 0, 0, 1], 0).into(), table, settings, true).unwrap();
        let four_address = application.address().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(application.run_until(async { stopped.await.unwrap_or_default() }));

        let pagemark_address = stack.api_url().replace("http://", "");
        let base = links::product_page(&top_product().unwrap());
        let (mut pages, mut whole) = (0, 0);
        for filter in ["", "/en", "/~/5", "/~/1.2", "/~/1.3.5", "/en/2.3.4", "/he/1.2.3", "/sw"] {
            let mut there = Some(format!("{base}{filter}"));
            let mut number = 1;
            while let Some(path) = there {
                let (status, theirs) = get(&four_address, &path).await;
                assert_eq!(status, 200, "{path}: {theirs}");
                there = next(&theirs);
                let by_number = if number > 1 { format!("?page={number}") } else { String::new() };
                let (status, ours) = get(&pagemark_address, &format!("{base}{filter}{by_number}")).await;
                if articles(&theirs).is_empty() && number > 1 {
                    assert_eq!((status, there), (404, None), "{path}: an empty page only after the last");
                    break;
                }
                assert_eq!(articles(&theirs), articles(&ours), "{path}");
                // With nothing before and behind it, it is the same to the byte.
                if number == 1 && there.is_none() {
                    assert_eq!(theirs, ours, "{path}");
                    whole += 1;
                }
                number += 1;
                pages += 1;
            }
        }
        assert!(pages > 10 && whole > 1, "{pages} {whole}");
        let (status, refused) = get(&four_address, &format!("{base}?cursor=none")).await;
        assert_eq!(status, 400, "{refused}");
        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
        stack.stop().await;
    }
}
