//! The cost of a month, and the number of page views at which one design becomes cheaper than
//! another.

use super::{
    MILLION, Month,
    model::{Design, PerWrite, WriteUsage},
    prices::Prices,
};
use crate::report::text;

const GB: f64 = 1e9;
/// An assumption: how writes divide into inserts, text edits, rating changes and deletions.
const WRITE_SHARES: PerWrite<f64> = [0.9, 0.05, 0.02, 0.03];
const FUNCTION_MEMORY_GB: f64 = 0.25;
pub(super) const PARTS: [&str; 7] = [
    "page views",
    "writes",
    "functions",
    "storage in table and indexes",
    "point-in-time recovery",
    "audits",
    "Redis",
];

/// A month's cost by part, in US dollars. The first one is that of page views.
pub(super) fn bill(design: &Design, month: &Month, prices: &Prices) -> [f64; PARTS.len()] {
    [
        month.views * page_view_usd(design, &month.mix, prices),
        month.writes * mean_of_writes(design, |write| write_usd(write, prices)),
        month.writes * mean_of_writes(design, |write| functions_usd(write, prices)),
        month.comments * (design.table_bytes + design.index_bytes) / GB
            * prices.storage_gb_month.usd,
        month.comments * design.table_bytes / GB * prices.backup_gb_month.usd,
        month.comments * design.upkeep_read_units / MILLION * prices.million_read_units.usd,
        if design.redis_bytes > 0.0 {
            prices.redis_month_usd(month.comments * design.redis_bytes)
        } else {
            0.0
        },
    ]
}

/// The cost of the mean page view of a mix, in percent.
pub(super) fn page_view_usd(design: &Design, mix: &[f64], prices: &Prices) -> f64 {
    let units: f64 = mix
        .iter()
        .zip(&design.page_read_units)
        .map(|(percent, units)| percent / 100.0 * units)
        .sum();
    units / MILLION * prices.million_read_units.usd
}

/// The mean of the writes, by their shares.
fn mean_of_writes(design: &Design, usd: impl Fn(WriteUsage) -> f64) -> f64 {
    let writes = WRITE_SHARES.into_iter().zip(design.write);
    writes.map(|(share, write)| share * usd(write)).sum()
}

fn write_usd(write: WriteUsage, prices: &Prices) -> f64 {
    let units = write.write_units * prices.million_write_units.usd
        + write.read_units * prices.million_read_units.usd;
    units / MILLION
}

/// The functions' cost of one write. A stream read feeds each invocation.
fn functions_usd(write: WriteUsage, prices: &Prices) -> f64 {
    let an_invocation =
        (prices.million_function_requests.usd + prices.million_stream_reads.usd) / MILLION;
    let gb_seconds = write.function_ms / 1_000.0 * FUNCTION_MEMORY_GB;
    write.function_invocations * an_invocation + gb_seconds * prices.function_gb_second.usd
}

/// From how many page views for each write on our design is cheaper.
pub(super) fn cheaper(designs: (&Design, &Design), month: &Month, prices: &Prices) -> String {
    let (more_without, less_a_view) = differences(designs, month, prices);
    let views = text(meeting(designs, month, prices));
    match (more_without > 0.0, less_a_view > 0.0) {
        (true, true) => format!("from {views}"),
        (true, false) => "never".to_owned(),
        (false, true) => "always".to_owned(),
        (false, false) => format!("below {views}"),
    }
}

/// At how many page views for each write both designs cost the same. Only the number of page views
/// varies. So a design's bill is a line, and two lines meet once or not at all: a number below 0
/// means that they do not.
pub(super) fn meeting(designs: (&Design, &Design), month: &Month, prices: &Prices) -> f64 {
    let (more_without, less_a_view) = differences(designs, month, prices);
    more_without / less_a_view / month.writes
}

/// How much more our design costs without page views, and how much less a page view costs.
fn differences((ours, theirs): (&Design, &Design), month: &Month, prices: &Prices) -> (f64, f64) {
    let more_without =
        without_views_usd(ours, month, prices) - without_views_usd(theirs, month, prices);
    let less_a_view =
        page_view_usd(theirs, &month.mix, prices) - page_view_usd(ours, &month.mix, prices);
    (more_without, less_a_view)
}

/// A month's cost without page views.
pub(super) fn without_views_usd(design: &Design, month: &Month, prices: &Prices) -> f64 {
    bill(design, month, prices).into_iter().skip(1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_query() -> Design {
        let write = WriteUsage {
            write_units: 12.0,
            read_units: 0.0,
            function_invocations: 0.5,
            function_ms: 8.0,
        };
        Design {
            page_read_units: vec![0.5; 5],
            write: [write; 4],
            table_bytes: 10_000.0,
            index_bytes: 10_000.0,
            redis_bytes: 500.0,
            upkeep_read_units: 4.0,
            ..Design::default()
        }
    }

    /// 2 units per write, half a unit for each rating of a page; no Redis.
    fn a_query_a_rating() -> Design {
        Design {
            page_read_units: vec![0.5, 0.5, 1.0, 1.5, 2.0],
            write: [WriteUsage {
                write_units: 2.0,
                ..WriteUsage::default()
            }; 4],
            table_bytes: 400.0,
            index_bytes: 1_600.0,
            ..Design::default()
        }
    }

    fn month(views: f64, writes: f64, comments: f64) -> Month {
        Month {
            views,
            writes,
            comments,
            ..Month::parse("--mix 0,0,0,100").unwrap()
        }
    }

    fn check(design: &Design, month: &Month, expected: [f64; 7]) {
        let found = bill(design, month, &Prices::published().unwrap());
        for (part, (found, expected)) in PARTS.into_iter().zip(found.into_iter().zip(expected)) {
            assert!(
                (found - expected).abs() < 1e-9,
                "{part}: {found} instead of {expected}"
            );
        }
    }

    #[test]
    fn a_bill_by_hand() {
        // A million views of half a unit; a million writes of 12 units, half an invocation and
        // 0.002 GB-seconds; a million comments of 20 KB, half of it in the table, 4 units of upkeep
        // and 0.5 GB in Redis, on two small nodes.
        let redis = 2.0 * 0.0256 * 730.0;
        let ours = [
            0.0625,
            7.5,
            0.1 + 2_000.0 * 0.0000133334,
            5.0,
            2.0,
            0.5,
            redis,
        ];
        check(&one_query(), &month(1e6, 1e6, 1e6), ours);
        check(
            &a_query_a_rating(),
            &month(1e6, 1e6, 1e6),
            [0.1875, 1.25, 0.0, 0.5, 0.08, 0.0, 0.0],
        );
        let mixed = Month {
            mix: vec![0.0, 50.0, 0.0, 50.0],
            ..month(1e6, 0.0, 0.0)
        };
        check(
            &a_query_a_rating(),
            &mixed,
            [0.125, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        );
        let mut reading = a_query_a_rating();
        reading.write[0].read_units = 1.0;
        check(
            &reading,
            &month(0.0, 1e6, 0.0),
            [0.0, 1.25 + 0.9 * 0.125, 0.0, 0.0, 0.0, 0.0, 0.0],
        );
    }

    #[test]
    fn break_evens_by_hand() {
        let one = one_query();
        let each = a_query_a_rating();
        let prices = Prices::published().unwrap();
        for (ours, theirs, ratings, writes, expected) in [
            // A million writes cost 6.3766668 more, storage, recovery and audits 6.92, and two
            // small nodes 37.376. A million views of three ratings cost 0.125 less. 50.6726668 /
            // 0.125 = 405.4.
            (&one, &each, 3, 1e6, "from 405"),
            (&one, &each, 4, 1e6, "from 270"),
            // One rating costs the same in both designs, so the dearer writes never pay off.
            (&one, &each, 1, 1e6, "never"),
            // With a hundred times the writes, fixed costs hardly matter: (637.66668 + 44.296) /
            // 0.125 / 100.
            (&one, &each, 3, 1e8, "from 54.6"),
            (&each, &one, 3, 1e6, "below 405"),
        ] {
            let month = month(5e6, writes, 1e6).with_all_views_of(ratings);
            assert_eq!(
                cheaper((ours, theirs), &month, &prices),
                expected,
                "{ratings}, {writes}"
            );
        }
        let cheap = Design {
            page_read_units: vec![0.4; 5],
            ..each.clone()
        };
        assert_eq!(
            cheaper((&cheap, &each), &month(1.0, 1e6, 1e6), &prices),
            "always"
        );
    }
}
