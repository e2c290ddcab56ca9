//! The cost of a page: the commands inside the script, as `MONITOR` shows them.
//!
//! # The bound
//!
//! Every page takes the marker, the totals, the size of the open block, and the newest comment. A
//! page of closed blocks also takes the counts of the root. Then each group costs two commands, its
//! name and its counts, and each block two, its name and its members. The names of two neighbours
//! come together.
//!
//! - Without a filter, a page lies in two blocks, or three if it has more than 112 comments, and in
//!   two groups: at most 12 commands.
//! - With a filter, each comment may be the only one of its group. So a page of 20 comments takes 80
//!   commands for them, and up to 12 around.
//! - A limit of time or a position costs up to 12 more: the sizes and the position in the open block,
//!   the root, a group and a block.
//!
//! How many comments the product has changes the length of the root's counts, not the number of
//! commands. So these bounds hold for seven million comments as for those of this test.

use std::collections::BTreeMap;

use futures_util::{Stream, StreamExt};
use itertools::{Itertools, iproduct};
use model::{Cd, CommentId, Filter, Order, ProductId};
use page_index::{PageIndex, RankedQuery};
use process::now;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::shapes::similar_ids;
use crate::fixture::{
    data,
    redis_server::{self, OwnRedis, TABLE_ID, make_ready},
};

/// Number of comments: they fill 21 groups of 128 blocks.
const COMMENTS: usize = 310_000;

/// Number of comments between two of the rare language: more than a group has.
const RARE_EVERY: usize = 14_400;

const UNFILTERED_MAX: u32 = 12;
const FILTERED_MAX: u32 = 130;

const NEWEST_MS: i64 = 1_700_000_000_000;

/// A separate server, and a monitor of its commands.
struct Scale {
    redis: OwnRedis,
    index: PageIndex,
    raw: redis::aio::MultiplexedConnection,
}

impl Scale {
    async fn start() -> Self {
        let redis = OwnRedis::start().await;
        let config = redis_server::config_at(&redis.server.url());
        let index = redis_index::connect(&config).unwrap();
        make_ready(&index, now()).await;
        let raw = redis.connection().await;
        Self { redis, index, raw }
    }

    /// Asks the questions one after the other. Returns the number of commands of each.
    async fn commands(&mut self, queries: &[RankedQuery<'_>], listing: &Listing<'_>) -> Vec<u32> {
        let client = redis::Client::open(self.redis.server.url()).unwrap();
        let monitor = client.get_async_monitor().await.unwrap();
        let mut lines = monitor.into_on_message::<String>();
        for query in queries {
            let mut answers = self.index.ranked(&[*query], TABLE_ID, now()).await.unwrap();
            let found = answers.remove(0).unwrap().comments;
            assert!(found.iter().eq(listing.page(query)), "{query:?}: {found:?}");
        }
        redis::cmd("ECHO")
            .arg("the end")
            .exec_async(&mut self.raw)
            .await
            .unwrap();
        let counts = count_commands(&mut lines).await;
        assert_eq!(counts.len(), queries.len());
        counts
    }
}

/// The comments of a filter, newest first.
struct Listing<'all>(Vec<&'all Cd>);

impl Listing<'_> {
    fn page(&self, query: &RankedQuery<'_>) -> impl Iterator<Item = &Cd> {
        let end = query.as_of;
        let mut ranked = self.0.clone();
        if query.order == Order::Oldest {
            ranked.reverse();
        }
        let ranked = ranked
            .into_iter()
            .filter(move |cd| end.is_none_or(|end| cd.created_at <= end));
        ranked
            .skip(usize::try_from(query.skip).unwrap())
            .take(query.count.into())
    }
}

/// The number of commands of each script, from the output of `MONITOR` up to the end mark:
/// `<time> [<database> <client or lua>] "<command>" "<argument>"…`.
async fn count_commands(lines: &mut (impl Stream<Item = String> + Unpin)) -> Vec<u32> {
    let mut counts: Vec<u32> = Vec::new();
    while let Some(line) = lines.next().await {
        let (head, command) = line.split_once("] ").unwrap();
        if head.ends_with(" lua") {
            *counts.last_mut().unwrap() += 1;
        } else if command.starts_with("\"EVALSHA") {
            counts.push(0);
        } else if command.starts_with("\"ECHO") {
            break;
        }
    }
    // At the first call the server did not know the script.
    counts.retain(|count| *count > 0);
    counts
}

/// How many comments share a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ties {
    None,
    All,
}

/// Comments, newest first, with their languages.
fn comments(ids: &[CommentId], ties: Ties) -> Vec<(Cd, &'static str)> {
    let mut comments = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let age = match ties {
            Ties::None => i64::try_from(number).unwrap(),
            Ties::All => 0,
        };
        let cd = Cd {
            created_at: data::at_ms(NEWEST_MS - age),
            id: id.clone(),
        };
        let is_rare = number % RARE_EVERY == RARE_EVERY / 2;
        comments.push((cd, if is_rare { "ko" } else { "en" }));
    }
    comments
}

/// Adds comments in the order of their creation.
async fn load(index: &PageIndex, product: &ProductId, comments: &[(Cd, &str)]) {
    let placements: BTreeMap<&str, _> = ["en", "ko"]
        .map(|tag| (tag, data::placement(product, tag, 5)))
        .into();
    let mut edits = Vec::new();
    for (cd, tag) in comments.iter().rev() {
        edits.extend(data::index_comment(&cd.id, &placements[tag], cd.created_at));
        if edits.len() == 1_000 {
            index.apply(&edits).await.unwrap();
            edits.clear();
        }
    }
    index.apply(&edits).await.unwrap();
}

#[tokio::test]
async fn a_page_costs_few_commands_at_any_depth_and_for_any_filter() {
    let mut random = StdRng::seed_from_u64(8);
    let mut scale = Scale::start().await;
    let mut ids = similar_ids(COMMENTS, &mut random);
    ids.sort_by(|a, b| b.cmp(a));
    let rare = data::filter(Some("ko"), None);
    for ties in [Ties::None, Ties::All] {
        let product = data::product(&format!("ties: {ties:?}"));
        let comments = comments(&ids, ties);
        load(&scale.index, &product, &comments).await;
        let all = Listing(comments.iter().map(|(cd, _)| cd).collect_vec());
        let of_rare = comments.iter().filter(|(_, tag)| *tag == "ko");
        let of_rare = Listing(of_rare.map(|(cd, _)| cd).collect_vec());

        let mut queries = Vec::new();
        for (order, count, _) in iproduct!([Order::Newest, Order::Oldest], [1, 20, 100], 0..60) {
            queries.push(RankedQuery {
                order,
                count,
                skip: random.random_range(0..COMMENTS as u64),
                ..RankedQuery::new(&product, &Filter::ANY)
            });
        }
        let most = scale.commands(&queries, &all).await.into_iter().max();
        println!("{ties:?}: at most {most:?} commands without a filter");
        assert!(most <= Some(UNFILTERED_MAX), "{ties:?}: {most:?} commands");

        let of_middle = comments[COMMENTS / 2].0.created_at;
        let mut queries = Vec::new();
        for (order, skip) in iproduct!([Order::Newest, Order::Oldest], [0, 1, 5]) {
            for as_of in [None, Some(data::at_ms(NEWEST_MS)), Some(of_middle)] {
                queries.push(RankedQuery {
                    order,
                    count: 20,
                    skip,
                    as_of,
                    settled_at: Some(of_middle),
                    ..RankedQuery::new(&product, &rare)
                });
            }
        }
        let most = scale.commands(&queries, &of_rare).await.into_iter().max();
        println!("{ties:?}: at most {most:?} commands for a rare language");
        assert!(most <= Some(FILTERED_MAX), "{ties:?}: {most:?} commands");
    }
}
