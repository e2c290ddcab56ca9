use std::future::{pending, ready};

use clap::Parser;
use expect_test::expect;
use four_index::{KeepCounters, write_cost_by_rules};

use super::*;
use crate::{filled_stores::TableOnEngine, money::Prices};

const PREFIX: &str = "compared";

fn plan(comments: u32, views: u32) -> (Sample, Plan) {
    let sample = Sample::new(comments, views).unwrap();
    let plan = Plan::of(&sample).unwrap();
    (sample, plan)
}

#[test]
fn the_plan_has_the_most_that_each_step_takes() {
    let (_, plan) = plan(200, 200);
    expect![[r#"
        endpoint: plan: At most what is consumed, by DynamoDB's rules and the prices of us-east-1 of 2026-11-20. Not counted: storage for minutes, far below a cent; reads of the stream, four a second for each shard and function, of which 2,500,000 a month are free.
        | step                                | design       | read units | write units | US dollars |
        |-------------------------------------|--------------|------------|-------------|------------|
        | insert 200 comments                 | Pagemark     |          0 |      14,000 |    0.00875 |
        | watch 20 of them, 700 look-ups each | Pagemark     |      7,000 |           0 |   0.000875 |
        | 15 pages: 20 checks, 200 views each | Pagemark     |      3,300 |           0 |   0.000412 |
        | insert 200 comments                 | four indexes |          0 |       1,000 |   0.000625 |
        | watch 20 of them, 700 look-ups each | four indexes |      7,000 |           0 |   0.000875 |
        | 15 pages: 20 checks, 200 views each | four indexes |     10,890 |           0 |    0.00136 |
        | together                            | both         |     28,190 |      15,000 |     0.0129 |"#]].assert_eq(&plan.table(&Prices::published().unwrap()).to_string());
}

#[test]
fn an_insert_is_planned_with_no_less_than_the_cost_by_rules() {
    let sample = Sample::new(100, 1).unwrap();
    let (ours, four) =
        (Bounds::of_pagemark(&sample.comments).unwrap(), Bounds::of_four_indexes(&sample.comments).unwrap());
    for comment in &sample.comments {
        let by_rules = write_cost_by_rules(None, Some(comment), KeepCounters::No).total();
        assert_eq!(four.four_indexes_insert(comment), by_rules, "{}", comment.id);
        // `bench cost` counts the transaction's share of the two indexes once.
        let by_model = crate::money::write_units_of_short_comments()[0][0];
        assert_eq!(ours.pagemark_insert(comment).unwrap(), by_model + 2.0, "{}", comment.id);
    }
}

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: EndpointArgs,
}

async fn run_line(line: &str) -> anyhow::Result<()> {
    let words = ["endpoint"].into_iter().chain(line.split_whitespace());
    run(&Command::try_parse_from(words)?.args).await
}

#[tokio::test]
async fn a_budget_below_the_plan_is_refused_before_any_call() {
    // Nothing listens there.
    let line = "--table compared --endpoint http://127.0.0.1:1 --yes";
    for budget in ["--budget 1", "--budget-read 1", "--budget-write 1", "--budget NaN"] {
        let refused = run_line(&format!("{line} {budget}")).await.unwrap_err().to_string();
        assert!(refused.contains("nothing was called"), "{budget}: {refused}");
    }
}

/// Runs on the embedded engine with this part of the plan as the budget. Returns the result, the plan, what was consumed,
/// the tables of the report, and the tables that are left.
async fn run_on_engine(
    part: f64,
    interrupted: impl Future<Output = ()>,
    before: impl AsyncFnOnce(&Place),
) -> (anyhow::Result<()>, [Units; 2], String, Vec<String>) {
    let engine = TableOnEngine::start("unused").await.unwrap();
    let (sample, plan) = plan(20, 2);
    let place = Place::new(PREFIX, Some(&engine.engine.endpoint_url())).await;
    before(&place).await;
    let Units { read, write } = plan.total();
    let budget = budget(&place, &sample, Units { read: read * part, write: write * part }).unwrap();
    let mut measured = Measured::new(&place).unwrap();
    let done = measure(&place, &sample, &budget, false, &mut measured, interrupted).await;
    let consumed = budget.consumed().into_values();
    let consumed = consumed
        .fold(Units::default(), |sum, units| Units { read: sum.read + units.read, write: sum.write + units.write });
    let units = measured.units(&plan, &budget, &Prices::published().unwrap());
    let tables = measured.tables().into_iter().chain([units]).map(|table| format!("\n{table}\n")).collect();
    let left = engine.table.client().list_tables().send().await.unwrap().table_names.unwrap_or_default();
    engine.engine.stop().await;
    (done, [plan.total(), consumed], tables, left)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_consumes_no_more_than_planned_and_leaves_no_tables() {
    let (done, [planned, consumed], tables, left) = run_on_engine(1.0, pending(), async |_| {}).await;
    done.unwrap();
    println!("{tables}");
    assert!(consumed.read > 0.0 && consumed.read <= planned.read, "{consumed:?} {planned:?}");
    // The engine counts an index's share of a transaction once: for each comment two units less than planned.
    assert_eq!(consumed.write, planned.write - 20.0 * 2.0);
    assert_eq!(left, [""; 0]);
    for rows in ["| Pagemark     |      20 |", "| any, 1.2.4.5 | last   |          2 |"] {
        assert!(tables.contains(rows), "{tables}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_runs_out_ends_the_run_and_the_tables_are_deleted() {
    let (done, [planned, consumed], tables, left) = run_on_engine(0.3, pending(), async |_| {}).await;
    let error = done.unwrap_err().to_string();
    assert!(error.contains("the budget is used up"), "{error}");
    assert!(consumed.write > 0.0 && consumed.write <= 0.3 * planned.write, "{consumed:?} {planned:?}");
    assert!(consumed.read <= 0.3 * planned.read, "{consumed:?} {planned:?}");
    assert_eq!(left, [""; 0]);
    assert!(tables.lines().any(|line| line.starts_with("| Pagemark")), "the first results are kept: {tables}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_leaves_no_tables() {
    let (done, _, _, left) = run_on_engine(1.0, ready(()), async |_| {}).await;
    assert_eq!((done.unwrap_err().to_string(), left), ("interrupted".to_owned(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_table_is_left_alone() {
    let (done, [_, consumed], _, left) = run_on_engine(1.0, pending(), async |place: &Place| {
        place.create(&mut Vec::new()).await.unwrap();
        place.delete(std::slice::from_ref(&place.pagemark)).await.unwrap();
    })
    .await;
    assert!(done.unwrap_err().to_string().contains("compared-four-index exists"));
    assert_eq!((consumed, left), (Units::default(), vec!["compared-four-index".to_owned()]));
}
