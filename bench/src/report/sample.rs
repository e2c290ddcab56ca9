//! A small report for tests.

use super::{
    Cell, Limit, Plot, Series, Table, figures,
    kept::{Kept, Loss, Of, Ratio},
    machine::{Machine, Run},
    row,
};

pub(super) fn sample() -> Kept {
    let of = || "depth".to_owned();
    let ratio = |name: &str, value: f64, limit: Limit, note: &str| Ratio {
        of: of(),
        name: name.to_owned(),
        value: Some(value),
        limit,
        holds: limit.holds(value),
        note: note.to_owned(),
    };
    Kept {
        machine: Machine {
            processor: "A processor".to_owned(),
            cores: 2,
            memory_gib: 7.8,
            kernel: "6.1".to_owned(),
            system: "Debian".to_owned(),
            versions: vec![("bench".to_owned(), "0.1.0".to_owned())],
        },
        runs: [(of(), run())].into(),
        ratios: vec![
            ratio("last_page_vs_page_2_p50", 1.004, Limit::AtMost(1.15), "at each size"),
            ratio("index_vs_pipeline", 0.56, Limit::AtLeast(0.7), ""),
            ratio("bytes_vs_32_sets", 0.136, Limit::None, "the less the better"),
        ],
        tables: vec![
            Of {
                of: of(),
                it: Table::new(
                    "read",
                    "Pages of 20.",
                    &["design", "p50, us"],
                    [row!["Pagemark", 1_240.4], row!["one | other", Cell::None]],
                ),
            },
            Of {
                of: of(),
                it: figures(
                    "storage",
                    "10 comments",
                    &[("items", 320.0, ""), ("table", 12_345.6, "bytes"), ("nothing", f64::NAN, "s")],
                ),
            },
        ],
        plots: vec![Of {
            of: of(),
            it: Plot {
                name: "latency by depth".to_owned(),
                title: "Latency by depth".to_owned(),
                x: "page".to_owned(),
                y: "p50, us".to_owned(),
                series: vec![Series {
                    name: "walk by <cursor>".to_owned(),
                    points: vec![(1.0, 900.0), (100.0, 90_000.0)],
                }],
            },
        }],
        losses: vec![Loss {
            of: of(),
            name: "writes".to_owned(),
            sentence: "An insert costs 16 times as many write units".to_owned(),
        }],
    }
}

fn run() -> Run {
    Run {
        began: "2026-11-20T21:04:05.123Z".to_owned(),
        took_s: 42.3,
        load_before: Some(0.31),
        load_after: None,
        is_quick: false,
        command: "bench --only depth".to_owned(),
        commit: "0123456789abcdef".to_owned(),
        is_dirty: true,
        failure: None,
    }
}
