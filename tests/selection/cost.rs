//! The cost of finding a page: the commands inside the script, as `MONITOR` shows them.
//!
//! # The bound
//!
//! `select.lua` narrows windows, of L elements in k sets together, until L is at most 24. It begins with the N elements
//! of all sets. A round that leaves at most half of L is good; at most log2(N/24) + 1 rounds are good. Two consecutive
//! rounds that are not good make the next ones halve the largest window, which holds at least L/k elements, until a
//! round is good. So the rounds that only aim badly number at most two for each good round, and two at the beginning.
//! Each halving round leaves at most (1 - 1/2k) L. The number of rounds is largest when all rounds are of the kind that
//! gains least per command. That is 3 rounds for each halving of L (3 / ln 2 < 4.4 for a factor of e), or one round for
//! each factor of 1 - 1/2k (less than 2k for a factor of e). With the ends of both:
//!
//! rounds <= 6 + max(4.4, 2k) ln(N/24)
//!
//! A round on scores costs one `ZREVRANGE` and at most two `ZCOUNT`s per set: 1 + 2k commands. When the windows hold a
//! single score, the search continues among members with fresh counters (6 more rounds). Such a round costs one
//! `ZREVRANGE` and a binary search in each other set, with at most floor(log2 n) + 1 commands each, where n is the size
//! of the largest set. Both searches narrow the same windows, so they share the logarithm. In addition there are the
//! marker, k `ZCARD`s, k `ZREVRANGE`s for the newest members, and at the end k `ZREVRANGE`s of at most 24 elements
//! together. In all, for k > 1 sets:
//!
//! commands <= 1 + 3k + (12 + max(4.4, 2k) ln(N/24)) max(1 + 2k, 1 + (k - 1) (floor(log2 n) + 1))
//!
//! If no two comments share a millisecond, no search among members is needed: 6 rounds instead of 12, of 1 + 2k
//! commands each. If all comments share one, there is one round on scores. The tests assert these sharper bounds in
//! these cases.

use futures_util::{Stream, StreamExt};
use itertools::{Itertools, iproduct, izip};
use model::{BaseSet, Cd, CommentId, ProductId, Rating};
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
        let (index, raw) = (redis_index::connect(&config).unwrap(), redis.connection().await);
        let scale = Self { redis, index, config, raw };
        make_ready(&scale.index, now()).await;
        scale
    }

    /// Puts comments (rating, milliseconds, id) into the rating's sets without a language.
    async fn load(&mut self, product: &ProductId, comments: &[(u64, i64, &CommentId)]) {
        for rating in Rating::ALL {
            let set = BaseSet { product: product.clone(), language: None, rating: Some(rating) };
            let members: Vec<(i64, &str)> = comments
                .iter()
                .filter(|(of, ..)| *of == u64::from(rating.get()))
                .map(|(_, ms, id)| (*ms, id.as_str()))
                .collect();
            for chunk in members.chunks(10_000) {
                redis::cmd("ZADD").arg(self.config.key_name(&set)).arg(chunk).exec_async(&mut self.raw).await.unwrap();
            }
        }
    }

    /// Finds the comment of each rank with the filter of four ratings, one after the other.
    async fn cost(&mut self, product: &ProductId, ranks: &[usize]) -> Vec<Cost> {
        let filter = data::filter(None, Some("1.2.3.4"));
        let client = redis::Client::open(self.redis.server.url()).unwrap();
        let mut lines = client.get_async_monitor().await.unwrap().into_on_message::<String>();
        let mut found = Vec::new();
        for rank in ranks {
            let skip = u64::try_from(*rank).unwrap();
            let query = RankedQuery { skip, count: 1, ..RankedQuery::new(product, &filter) };
            found.push(self.index.ranked(&[query], TABLE_ID, now()).await.unwrap().remove(0).unwrap().comments);
        }
        redis::cmd("ECHO").arg("the end").exec_async(&mut self.raw).await.unwrap();
        let counted = count_commands(&mut lines).await;
        assert_eq!(counted.len(), ranks.len());
        izip!(ranks, found, counted)
            .map(|(rank, found, (commands, widest)): (_, Vec<Cd>, _)| Cost {
                rank: *rank,
                found: found.into_iter().next().map(|cd| cd.id),
                commands,
                widest,
            })
            .collect()
    }
}

/// The cost of finding one comment.
struct Cost {
    rank: usize,
    found: Option<CommentId>,
    commands: u32,
    /// Largest number of elements that one command fetched.
    widest: u64,
}

/// The number of commands and the widest range of each script, from the output of `MONITOR` up to the end mark: `<time>
/// [<database> <client or lua>] "<command>" "<argument>"…`.
async fn count_commands(lines: &mut (impl Stream<Item = String> + Unpin)) -> Vec<(u32, u64)> {
    let mut counted = Vec::new();
    while let Some(line) = lines.next().await {
        let (head, command) = line.split_once("] ").unwrap();
        let words: Vec<&str> = command.split("\" \"").map(|word| word.trim_matches('"')).collect();
        if !head.ends_with(" lua") {
            match words[0] {
                "EVALSHA" => counted.push((0, 0)),
                "ECHO" => break,
                _ => {}
            }
            continue;
        }
        let (commands, widest) = counted.last_mut().unwrap();
        *commands += 1;
        if words[0] == "ZREVRANGE" {
            let place = |at: usize| words[at].parse::<u64>().unwrap();
            *widest = (*widest).max(place(3) - place(2) + 1);
        }
    }
    // At the first call the server did not know the script.
    counted.retain(|(commands, _)| *commands > 0);
    counted
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
    let rounds = 6.0 + f64::max(4.4, 2.0 * k) * merged.ln();
    let on_scores = 1.0 + 2.0 * k;
    let on_members = 1.0 + (k - 1.0) * f64::from(sizes.iter().max().unwrap().ilog2() + 1);
    // The marker, and for each set its size, its newest member, and its remaining elements at the end.
    let around = 1.0 + 3.0 * k;
    around
        + match ties {
            Ties::None => rounds * on_scores,
            Ties::Thousands => (rounds + 6.0) * f64::max(on_scores, on_members),
            // One round on scores finds that there is only one score.
            Ties::All => on_scores + (rounds + 6.0) * on_members,
        }
}

/// Ratings of comments, newest first, in which a set's share of the next comments says nothing about its share of later
/// ones. From the middle outwards, each block has one rating and is larger than the previous one by a factor.
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

/// Ratings of comments, built by repeatedly placing a block of one rating at one end of the remaining range.
fn nested_blocks(ratings: u64, random: &mut StdRng) -> Vec<u64> {
    let (mut front, mut back, mut left, mut rating) = (Vec::new(), Vec::new(), COMMENTS, 0);
    while left > 0 {
        let block = random.random_range(1..=left);
        let end = if random.random_range(0..2) == 0 { &mut front } else { &mut back };
        end.extend(std::iter::repeat_n(1 + rating % ratings, block));
        (left, rating) = (left - block, rating + 1);
    }
    front.into_iter().chain(back.into_iter().rev()).collect()
}

/// Checks each spread three times: with a separate millisecond per comment, with thousands of comments per millisecond,
/// and with one millisecond for all.
async fn check_spreads(spreads: Vec<(String, Vec<u64>)>) {
    let mut random = StdRng::seed_from_u64(8);
    let mut scale = Scale::start().await;
    let mut ids: Vec<CommentId> = similar_ids(COMMENTS, &mut random);
    ids.sort_by(|a, b| b.cmp(a));
    for ((name, ratings), ties) in iproduct!(spreads, [Ties::None, Ties::Thousands, Ties::All]) {
        let name = format!("{name}, ties: {ties:?}");
        let product = data::product(&name);
        let comments: Vec<_> = izip!(&ratings, ties.times(), &ids).map(|(rating, ms, id)| (*rating, ms, id)).collect();
        scale.load(&product, &comments).await;
        let sizes: Vec<u64> =
            ratings.iter().counts().into_iter().sorted().map(|(_, size)| u64::try_from(size).unwrap()).collect();

        // Check ranks in the middle, where blocks meet, and at random.
        let meetings = (1..ratings.len()).filter(|at| ratings[*at] != ratings[at - 1]).collect_vec();
        let mut ranks: Vec<usize> = (0..30).map(|at| COMMENTS / 2 - 15 + at).collect();
        ranks.extend(meetings.sample(&mut random, 60));
        ranks.extend((0..60).map(|_| random.random_range(0..COMMENTS - 1)));
        let costs = scale.cost(&product, &ranks).await;
        for cost in &costs {
            assert_eq!(cost.found.as_ref(), Some(&ids[cost.rank]), "{name}: rank {}", cost.rank);
            assert!(cost.widest <= MERGE_MAX, "{name}: {} elements fetched at once", cost.widest);
        }
        let most = costs.iter().map(|cost| cost.commands).max().unwrap();
        let bound = bound(&sizes, ties);
        println!("{name}: at most {most} commands, bound {bound:.0}");
        assert!(f64::from(most) <= bound, "{name}: {most} commands, more than {bound:.0}");
        scale.index.clear().await.unwrap();
        make_ready(&scale.index, now()).await;
    }
}

#[tokio::test]
async fn blocks_that_grow_from_the_middle_or_nest_cost_no_more_than_the_bound() {
    let spreads = iproduct!([1.5, 8.0], [2, 4]).map(|(factor, ratings)| {
        (format!("{ratings} ratings in blocks that grow by {factor}"), blocks_from_the_middle(factor, ratings))
    });
    let nested = ("nested blocks of 4 ratings".to_owned(), nested_blocks(4, &mut StdRng::seed_from_u64(10)));
    check_spreads(spreads.chain([nested]).collect()).await;
}

#[tokio::test]
async fn a_page_of_evenly_spread_comments_costs_a_few_dozen_commands_at_any_depth() {
    let mut random = StdRng::seed_from_u64(9);
    let mut scale = Scale::start().await;
    let mut ids: Vec<CommentId> = similar_ids(COMMENTS, &mut random);
    ids.sort_by(|a, b| b.cmp(a));
    let product = data::product("even");
    let comments: Vec<_> =
        ids.iter().zip(0..).map(|(id, at)| (random.random_range(1..=4), NEWEST_MS - at, id)).collect();
    scale.load(&product, &comments).await;
    let deep = |random: &mut StdRng, share: std::ops::Range<usize>| -> Vec<usize> {
        (0..200).map(|_| random.random_range(share.start * COMMENTS / 100..share.end * COMMENTS / 100)).collect()
    };
    let mut means = Vec::new();
    for share in [0..5, 45..50, 94..99] {
        let costs = scale.cost(&product, &deep(&mut random, share.clone())).await;
        let sum: u32 = costs.iter().map(|cost| cost.commands).sum();
        println!("{share:?} % deep: {} commands on average", sum / 200);
        means.push(sum / 200);
    }
    // One marker, four sizes, four newest members, four fetches at the end, and about five rounds of cuts in four sets.
    assert!(means.iter().all(|mean| *mean <= 49), "{means:?}");
}
