//! The cost of a page: the commands inside the script, as `MONITOR` shows them.
//!
//! # The bound
//!
//! `select.lua` narrows windows, of L elements in k sets together, until L is at most 24. It begins
//! with the N elements of all sets. A round that leaves at most half of L is good; at most
//! log2(N/24) + 1 rounds are good. Two consecutive rounds that are not good make the next ones
//! halve the largest window, until a round is good. So the rounds that only aim badly number at
//! most two for each good round, and two at the beginning. The largest window holds at least L/k
//! elements, which are five or more. Halving removes at least two fifths of them, because an odd
//! one may stay. So each halving round leaves at most (1 - 2/5k) L. The number of rounds is largest
//! when all rounds are of the kind that gains least per command. That is 3 rounds for each halving
//! of L (3 / ln 2 < 4.4 for a factor of e), or one round for each factor of 1 - 2/5k (less than
//! 2.5k for a factor of e). With the ends of both:
//!
//! rounds <= 6 + max(4.4, 2.5k) ln(N/24)
//!
//! A round on scores costs one `ZREVRANGE` and at most two `ZCOUNT`s per set: 1 + 2k commands. When
//! the windows hold a single score, the search continues among members with fresh counters (6 more
//! rounds). Such a round costs one `ZREVRANGE` and a binary search in each other set, with at most
//! floor(log2 n) + 1 commands each, where n is the size of the largest set. Both searches narrow
//! the same windows, so they share the logarithm. A search takes at most
//!
//! (12 + max(4.4, 2.5k) ln(N/24)) max(1 + 2k, 1 + (k - 1) (floor(log2 n) + 1))
//!
//! commands. The merge fetches from each set at most twice: its share of the page and of at most 23
//! elements before it, and then all that can still be needed. So no command fetches more than the
//! page and 23 elements. In addition there are the marker, k `ZCARD`s, and at most 2k commands for
//! the newest member, for `as_of` and for what is settled.
//!
//! If no two comments share a millisecond, no search among members is needed: 6 rounds instead of
//! 12, of 1 + 2k commands each. If all comments share one, there is one round on scores. The tests
//! assert these sharper bounds in these cases.

use futures_util::{Stream, StreamExt};
use itertools::{Itertools, iproduct, izip};
use model::{CommentId, Filter, Order, ProductId, Rating};
use page_index::{PageIndex, RankedQuery};
use process::now;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use redis_index::RedisIndexConfig;

use super::shapes::similar_ids;
use crate::fixture::{
    data,
    redis_server::{self, OwnRedis, TABLE_ID, make_ready},
};

/// Number of comments: the product is a large one.
const COMMENTS: usize = 200_000;

/// The value of `MERGE_MAX` in `select.lua`.
const MERGE_MAX: u64 = 24;

const NEWEST_MS: i64 = 1_700_000_000_000;

/// A separate server, and a monitor of its commands.
struct Scale {
    redis: OwnRedis,
    index: PageIndex,
    config: RedisIndexConfig,
    raw: redis::aio::MultiplexedConnection,
}

impl Scale {
    async fn start() -> Self {
        let redis = OwnRedis::start().await;
        let config = redis_server::config_at(&redis.server.url());
        let index = redis_index::connect(&config).unwrap();
        make_ready(&index, now()).await;
        let raw = redis.connection().await;
        Self {
            redis,
            index,
            config,
            raw,
        }
    }

    /// Puts comments (rating, milliseconds, id) into the rating's sets without a language.
    async fn load(&mut self, product: &ProductId, comments: &[(u64, i64, &CommentId)]) {
        for rating in Rating::ALL {
            let set = data::filter(None, Some(rating.as_str()))
                .base_sets(product)
                .remove(0);
            let mut members: Vec<(i64, &str)> = Vec::new();
            for (stars, ms, id) in comments {
                if *stars == u64::from(rating.get()) {
                    members.push((*ms, id.as_str()));
                }
            }
            for chunk in members.chunks(10_000) {
                redis::cmd("ZADD")
                    .arg(self.config.key_name(&set))
                    .arg(chunk)
                    .exec_async(&mut self.raw)
                    .await
                    .unwrap();
            }
        }
    }

    /// Asks for the pages that begin with these ranks, one after the other.
    async fn cost(&mut self, listing: &Listing<'_>, ranks: &[usize]) -> Vec<Cost> {
        let client = redis::Client::open(self.redis.server.url()).unwrap();
        let monitor = client.get_async_monitor().await.unwrap();
        let mut lines = monitor.into_on_message::<String>();
        for rank in ranks {
            let query = RankedQuery {
                order: listing.order,
                skip: u64::try_from(*rank).unwrap(),
                count: listing.page_size,
                ..RankedQuery::new(listing.product, &Filter::ANY)
            };
            let mut answers = self.index.ranked(&[query], TABLE_ID, now()).await.unwrap();
            let found = answers.remove(0).unwrap().comments;
            let found = found.iter().map(|cd| &cd.id).collect_vec();
            let expected = listing.page(*rank);
            let order = listing.order;
            assert_eq!(found, expected, "{order} from rank {rank}");
        }
        redis::cmd("ECHO")
            .arg("the end")
            .exec_async(&mut self.raw)
            .await
            .unwrap();
        let costs = count_commands(&mut lines).await;
        assert_eq!(costs.len(), ranks.len());
        costs
    }
}

/// The listing of a product, by pages of one size.
struct Listing<'all> {
    product: &'all ProductId,
    /// The positions of all comments, newest first.
    ids: &'all [CommentId],
    order: Order,
    page_size: u16,
}

impl Listing<'_> {
    /// The ids on the page that begins with a rank.
    fn page(&self, rank: usize) -> Vec<&CommentId> {
        let end = self.ids.len().min(rank + usize::from(self.page_size));
        let mut page = Vec::new();
        for rank in rank..end {
            page.push(match self.order {
                Order::Newest => &self.ids[rank],
                Order::Oldest => &self.ids[self.ids.len() - 1 - rank],
            });
        }
        page
    }
}

#[derive(Default)]
struct Cost {
    commands: u32,
    /// Number of elements that all commands fetched.
    fetched: u64,
    /// Largest number of elements that one command fetched.
    widest: u64,
}

/// The cost of each script, from the output of `MONITOR` up to the end mark: `<time> [<database>
/// <client or lua>] "<command>" "<argument>"…`.
async fn count_commands(lines: &mut (impl Stream<Item = String> + Unpin)) -> Vec<Cost> {
    let mut costs = Vec::new();
    while let Some(line) = lines.next().await {
        let (head, command) = line.split_once("] ").unwrap();
        let words: Vec<&str> = command
            .split("\" \"")
            .map(|word| word.trim_matches('"'))
            .collect();
        if !head.ends_with(" lua") {
            match words[0] {
                "EVALSHA" => costs.push(Cost::default()),
                "ECHO" => break,
                _ => {}
            }
            continue;
        }
        let cost: &mut Cost = costs.last_mut().unwrap();
        cost.commands += 1;
        if words[0] == "ZREVRANGE" {
            let first: u64 = words[2].parse().unwrap();
            let last: u64 = words[3].parse().unwrap();
            let elements = last - first + 1;
            cost.fetched += elements;
            cost.widest = cost.widest.max(elements);
        }
    }
    // At the first call the server did not know the script.
    costs.retain(|cost| cost.commands > 0);
    costs
}

/// How many comments share a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ties {
    None,
    Thousands,
    All,
}

impl Ties {
    fn times(self) -> impl Iterator<Item = i64> {
        (0..).map(move |at| match self {
            Self::None => NEWEST_MS - at,
            Self::Thousands => NEWEST_MS - at / 3_000,
            Self::All => NEWEST_MS,
        })
    }
}

/// Maximum number of commands for a page of a product with these sets.
fn bound(sizes: &[u64], ties: Ties) -> f64 {
    let k = sizes.len() as f64;
    let merged = sizes.iter().sum::<u64>() as f64 / MERGE_MAX as f64;
    let rounds = 6.0 + f64::max(4.4, 2.5 * k) * merged.ln();
    let on_scores = 1.0 + 2.0 * k;
    let on_members = 1.0 + (k - 1.0) * f64::from(sizes.iter().max().unwrap().ilog2() + 1);
    // The marker, and for each set its size, its newest member, and twice some elements at the end.
    let around = 1.0 + 4.0 * k;
    around
        + match ties {
            Ties::None => rounds * on_scores,
            Ties::Thousands => (rounds + 6.0) * f64::max(on_scores, on_members),
            // One round on scores finds that there is only one score.
            Ties::All => on_scores + (rounds + 6.0) * on_members,
        }
}

/// Ratings of comments, newest first, in which a set's share of the next comments says nothing
/// about its share of later ones. From the middle outwards, each block has one rating and is larger
/// than the previous one by a factor.
fn blocks_from_the_middle(factor: f64, ratings: u64) -> Vec<u64> {
    let mut blocks = growing_blocks(factor, ratings, 0);
    blocks.reverse();
    blocks.extend(growing_blocks(factor, ratings, 1));
    blocks
}

/// Half of the comments. The first block is of one comment.
fn growing_blocks(factor: f64, ratings: u64, first: u64) -> Vec<u64> {
    let mut blocks = Vec::new();
    let mut length = 1.0_f64;
    let mut rating = first;
    while blocks.len() < COMMENTS / 2 {
        let mut added = 1;
        while f64::from(added) <= length {
            blocks.push(1 + rating % ratings);
            added += 1;
        }
        length *= factor;
        rating += 1;
    }
    blocks.truncate(COMMENTS / 2);
    blocks
}

/// Ratings of comments, built by repeatedly putting a block of one rating at one end of the
/// remaining range.
fn nested_blocks(ratings: u64, random: &mut StdRng) -> Vec<u64> {
    let mut front = Vec::new();
    let mut back = Vec::new();
    let mut remaining = COMMENTS;
    let mut rating = 0;
    while remaining > 0 {
        let length = random.random_range(1..=remaining);
        let block = std::iter::repeat_n(1 + rating % ratings, length);
        if random.random_range(0..2) == 0 {
            front.extend(block);
        } else {
            back.extend(block);
        }
        remaining -= length;
        rating += 1;
    }
    back.reverse();
    front.extend(back);
    front
}

/// Checks each spread three times: with a separate millisecond per comment, with thousands of
/// comments per millisecond, and with one millisecond for all.
async fn check_spreads(spreads: Vec<(&str, Vec<u64>)>) {
    let mut random = StdRng::seed_from_u64(8);
    let mut scale = Scale::start().await;
    let mut ids: Vec<CommentId> = similar_ids(COMMENTS, &mut random);
    ids.sort_by(|a, b| b.cmp(a));
    for ((name, ratings), ties) in iproduct!(spreads, [Ties::None, Ties::Thousands, Ties::All]) {
        let name = format!("{name}, ties: {ties:?}");
        let product = data::product(&name);
        let comments = izip!(ratings.iter().copied(), ties.times(), &ids).collect_vec();
        scale.load(&product, &comments).await;
        let sizes = ratings.iter().counts().into_values();
        let sizes = sizes.map(|size| size as u64).collect_vec();

        // Check ranks in the middle, where blocks meet, and at random.
        let meetings = (1..ratings.len())
            .filter(|rank| ratings[*rank] != ratings[rank - 1])
            .collect_vec();
        let mut ranks = (COMMENTS / 2 - 15..COMMENTS / 2 + 15).collect_vec();
        ranks.extend(meetings.sample(&mut random, 60));
        for _ in 0..60 {
            ranks.push(random.random_range(0..COMMENTS - 1));
        }
        let bound = bound(&sizes, ties);
        for (order, page_size) in [
            (Order::Newest, 1),
            (Order::Newest, 100),
            (Order::Oldest, 20),
        ] {
            let listing = Listing {
                product: &product,
                ids: &ids,
                order,
                page_size,
            };
            let costs = scale.cost(&listing, &ranks).await;
            let widest = costs.iter().map(|cost| cost.widest).max().unwrap();
            assert!(
                widest < MERGE_MAX + u64::from(page_size),
                "{name}: {widest} elements fetched at once"
            );
            let most = costs.iter().map(|cost| cost.commands).max().unwrap();
            println!("{name}: {order}, {page_size}: at most {most} commands, bound {bound:.0}");
            assert!(
                f64::from(most) <= bound,
                "{name}: {most} commands, more than {bound:.0}"
            );
        }
        scale.index.clear().await.unwrap();
        make_ready(&scale.index, now()).await;
    }
}

#[tokio::test]
async fn blocks_that_grow_from_the_middle_or_nest_cost_no_more_than_the_bound() {
    let nested = nested_blocks(5, &mut StdRng::seed_from_u64(10));
    check_spreads(vec![
        (
            "5 ratings in blocks that grow by 1.5",
            blocks_from_the_middle(1.5, 5),
        ),
        (
            "2 ratings in blocks that grow by 8",
            blocks_from_the_middle(8.0, 2),
        ),
        ("nested blocks of 5 ratings", nested),
    ])
    .await;
}

fn mean(costs: &[Cost], figure: fn(&Cost) -> f64) -> f64 {
    costs.iter().map(figure).sum::<f64>() / costs.len() as f64
}

#[tokio::test]
async fn a_page_of_evenly_spread_comments_costs_a_few_dozen_commands_at_any_depth() {
    let mut random = StdRng::seed_from_u64(9);
    let mut scale = Scale::start().await;
    let mut ids: Vec<CommentId> = similar_ids(COMMENTS, &mut random);
    ids.sort_by(|a, b| b.cmp(a));
    let product = data::product("even");
    let mut comments = Vec::new();
    for (number, id) in (0..).zip(&ids) {
        comments.push((random.random_range(1..=5), NEWEST_MS - number, id));
    }
    scale.load(&product, &comments).await;
    // One marker, five sizes, five newest members, about two and a half rounds of cuts in five
    // sets, and five fetches at the end, seldom one more.
    for (depth, page_size) in iproduct!([0..5, 45..50, 94..99], [1, 20, 100]) {
        let mut ranks = Vec::new();
        for _ in 0..200 {
            let first = depth.start * COMMENTS / 100;
            let end = depth.end * COMMENTS / 100;
            ranks.push(random.random_range(first..end));
        }
        let listing = Listing {
            product: &product,
            ids: &ids,
            order: Order::Newest,
            page_size,
        };
        let costs = scale.cost(&listing, &ranks).await;
        let commands = mean(&costs, |cost| cost.commands.into());
        let fetched = mean(&costs, |cost| cost.fetched as f64);
        println!(
            "{depth:?} % deep, {page_size} comments: \
             {commands:.0} commands fetch {fetched:.0} elements on average"
        );
        assert!(commands <= 42.0, "{commands}");
        assert!(fetched <= 36.0 + 1.3 * f64::from(page_size), "{fetched}");
    }
}
