//! An export of a table whose indexes have lost entries.

use std::fs;

use repair_job::exit;
use table::{GSI, PRIMARIES};

use super::Exporter;
use crate::{
    fixture::data::{PRODUCT, new_comment, product},
    repair::{job, whole},
};

#[tokio::test]
async fn an_export_by_the_table_has_what_its_indexes_have_lost() {
    let exporter = Exporter::start().await;
    let stores = &exporter.stores;
    // Without entries of the journal, by which every export finds comments of the last minutes.
    let product = product(PRODUCT);
    let mut comments = Vec::new();
    for number in 0..20 {
        comments.push(new_comment(&format!("c{number}"), &product, "en", 4));
    }
    stores.put_primary_items(comments.clone()).await;
    for (number, index) in [(3, PRIMARIES), (7, GSI)] {
        let id = &comments[number].id;
        stores.engine.lose_entries(&stores.table, index, id);
    }
    let expected = exporter.expected().await;
    let file = exporter.file();
    let ended = exporter.export_to(&file, &[]).await.expect(0);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 19);
    let told = "which no audit has compared with the table yet";
    assert!(ended.stderr.contains(told), "{ended:?}");

    let ended = exporter.export_to(&file, &["--by-table"]).await.expect(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    assert!(!ended.stderr.contains("indexes"), "{ended:?}");

    stores.rebuild().await;
    let repaired = job(stores, true).audit(whole()).await;
    assert_eq!(repaired.exit_code(), exit::DRIFT_FOUND, "{repaired}");
    let ended = exporter.export_to(&file, &[]).await.expect(0);
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        exporter.expected().await
    );
    let told = "has compared with the table";
    assert!(ended.stderr.contains(told), "{ended:?}");
    exporter.end().await;
}
