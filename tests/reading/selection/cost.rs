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
        let (index, raw) = (
            redis_index::connect(&config).unwrap(),
            redis.connection().await,
        );
        let scale = Self {
            redis,
            index,
            config,
            raw,
        };
        make_ready(&scale.index, now()).await;
        scale
    }

    /// Puts comments (rating, milliseconds, id) into the rating's sets without a language.
    async fn load(&mut self, product: &ProductId, comments: &[(u64, i64, &CommentId)]) {
        for rating in Rating::ALL {
            let set = data::filter(None, Some(rating.as_str()))
                .base_sets(product)
                .remove(0);
            let members: Vec<(i64, &str)> = comments
                .iter()
                .filter(|(of, ..)| *of == u64::from(rating.get()))
                .map(|(_, ms, id)| (*ms, id.as_str()))
                .collect();
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

    /// Asks for the pages that begin with these ranks, one after the other. `ids` are those of all
    /// comments, newest first.
    async fn cost(
        &mut self,
        (product, ids): (&ProductId, &[CommentId]),
        (order, count): (Order, u16),
        ranks: &[usize],
    ) -> Vec<Cost> {
        let client = redis::Client::open(self.redis.server.url()).unwrap();
        let mut lines = client
            .get_async_monitor()
            .await
            .unwrap()
            .into_on_message::<String>();
        for rank in ranks {
            let all = RankedQuery::new(product, &Filter::ANY);
            let query = RankedQuery {
                order,
                skip: u64::try_from(*rank).unwrap(),
                count,
                ..all
            };
            let found = self
                .index
                .ranked(&[query], TABLE_ID, now())
                .await
                .unwrap()
                .remove(0)
                .unwrap()
                .comments;
            let at = |rank: usize| match order {
                Order::Newest => ids.get(rank),
                Order::Oldest => ids.get(COMMENTS.checked_sub(1 + rank)?),
            };
            let page = (*rank..rank + usize::from(count)).map_while(at);
            assert!(
                page.eq(found.iter().map(|cd| &cd.id)),
                "{product:?}: {order} from rank {rank}: {found:?}"
            );
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
            let place = |at: usize| words[at].parse::<u64>().unwrap();
            let elements = place(3) - place(2) + 1;
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
    let half = |first: u64| {
        let (mut side, mut length, mut rating) = (Vec::new(), 1.0_f64, first);
        while side.len() < COMMENTS / 2 {
            let block = (1..).take_while(|number| f64::from(*number) <= length);
            side.extend(block.map(|_| 1 + rating % ratings));
            length *= factor;
            rating += 1;
        }
        side.truncate(COMMENTS / 2);
        side
    };
    half(0).into_iter().rev().chain(half(1)).collect()
}

/// Ratings of comments, built by repeatedly placing a block of one rating at one end of the
/// remaining range.
fn nested_blocks(ratings: u64, random: &mut StdRng) -> Vec<u64> {
    let (mut front, mut back, mut left, mut rating) = (Vec::new(), Vec::new(), COMMENTS, 0);
    while left > 0 {
        let block = random.random_range(1..=left);
        let end = if random.random_range(0..2) == 0 {
            &mut front
        } else {
            &mut back
        };
        end.extend(std::iter::repeat_n(1 + rating % ratings, block));
        (left, rating) = (left - block, rating + 1);
    }
    front.into_iter().chain(back.into_iter().rev()).collect()
}

/// Checks each spread three times: with a separate millisecond per comment, with thousands of
/// comments per millisecond, and with one millisecond for all.
async fn check_spreads(spreads: Vec<(String, Vec<u64>)>) {
    let mut random = StdRng::seed_from_u64(8);
    let mut scale = Scale::start().await;
    let mut ids: Vec<CommentId> = similar_ids(COMMENTS, &mut random);
    ids.sort_by(|a, b| b.cmp(a));
    for ((name, ratings), ties) in iproduct!(spreads, [Ties::None, Ties::Thousands, Ties::All]) {
        let name = format!("{name}, ties: {ties:?}");
        let product = data::product(&name);
        let comments: Vec<_> = izip!(&ratings, ties.times(), &ids)
            .map(|(rating, ms, id)| (*rating, ms, id))
            .collect();
        scale.load(&product, &comments).await;
        let sizes: Vec<u64> = ratings
            .iter()
            .counts()
            .into_iter()
            .sorted()
            .map(|(_, size)| u64::try_from(size).unwrap())
            .collect();

        // Check ranks in the middle, where blocks meet, and at random.
        let meetings = (1..ratings.len())
            .filter(|at| ratings[*at] != ratings[at - 1])
            .collect_vec();
        let mut ranks: Vec<usize> = (0..30).map(|at| COMMENTS / 2 - 15 + at).collect();
        ranks.extend(meetings.sample(&mut random, 60));
        ranks.extend((0..60).map(|_| random.random_range(0..COMMENTS - 1)));
        let bound = bound(&sizes, ties);
        for (order, count) in [
            (Order::Newest, 1),
            (Order::Newest, 100),
            (Order::Oldest, 20),
        ] {
            let costs = scale.cost((&product, &ids), (order, count), &ranks).await;
            let widest = costs.iter().map(|cost| cost.widest).max().unwrap();
            assert!(
                widest < MERGE_MAX + u64::from(count),
                "{name}: {widest} elements fetched at once"
            );
            let most = costs.iter().map(|cost| cost.commands).max().unwrap();
            println!("{name}: {order}, {count}: at most {most} commands, bound {bound:.0}");
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
    let spreads = [(1.5, 5), (8.0, 2)].into_iter().map(|(factor, ratings)| {
        (
            format!("{ratings} ratings in blocks that grow by {factor}"),
            blocks_from_the_middle(factor, ratings),
        )
    });
    let nested = (
        "nested blocks of 5 ratings".to_owned(),
        nested_blocks(5, &mut StdRng::seed_from_u64(10)),
    );
    check_spreads(spreads.chain([nested]).collect()).await;
}

#[tokio::test]
async fn a_page_of_evenly_spread_comments_costs_a_few_dozen_commands_at_any_depth() {
    let mut random = StdRng::seed_from_u64(9);
    let mut scale = Scale::start().await;
    let mut ids: Vec<CommentId> = similar_ids(COMMENTS, &mut random);
    ids.sort_by(|a, b| b.cmp(a));
    let product = data::product("even");
    let comments: Vec<_> = ids
        .iter()
        .zip(0..)
        .map(|(id, at)| (random.random_range(1..=5), NEWEST_MS - at, id))
        .collect();
    scale.load(&product, &comments).await;
    let deep = |random: &mut StdRng, share: std::ops::Range<usize>| -> Vec<usize> {
        (0..200)
            .map(|_| random.random_range(share.start * COMMENTS / 100..share.end * COMMENTS / 100))
            .collect()
    };
    // One marker, five sizes, five newest members, about two and a half rounds of cuts in five
    // sets, and five fetches at the end, seldom one more.
    for (share, count) in iproduct!([0..5, 45..50, 94..99], [1, 20, 100]) {
        let ranks = deep(&mut random, share.clone());
        let costs = scale
            .cost((&product, &ids), (Order::Newest, count), &ranks)
            .await;
        let mean = |of: fn(&Cost) -> f64| costs.iter().map(of).sum::<f64>() / costs.len() as f64;
        let (commands, fetched) = (
            mean(|cost| cost.commands.into()),
            mean(|cost| cost.fetched as f64),
        );
        println!(
            "{share:?} % deep, {count} comments: {commands:.0} commands fetch {fetched:.0} elements on average"
        );
        assert!(commands <= 42.0, "{commands}");
        assert!(fetched <= 36.0 + 1.3 * f64::from(count), "{fetched}");
    }
}
