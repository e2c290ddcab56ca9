//! Filling a product, and comparing all its filters with what was posted: the part of a rehearsal that readers and
//! writers see.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Duration,
};

use anyhow::{Context, ensure};
use model::ProductId;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    client::Client,
    listing::{Posted, of_all},
    run::wait_for,
};

/// The languages of the comments. Their number has no divisor in common with that of the ratings.
const LANGUAGES: [&str; 3] = ["en", "ko", "pt-BR"];

/// Posts comments of every rating in several languages, and writes them to the file. A second call with the same token
/// within a day posts nothing new, even if the first one was interrupted.
///
/// # Errors
/// The API refuses one, or the file cannot be written.
pub async fn fill(api: &Client, product: &str, comments: u64, file: &Path) -> anyhow::Result<()> {
    let product = ProductId::parse(product)?;
    let mut opened = File::create(file).with_context(|| file.display().to_string())?;
    for (number, language) in (0..comments).zip(LANGUAGES.into_iter().cycle()) {
        let body = format!("Comment {number} of a rehearsal.");
        let comment = json!({"language": language, "rating": 1 + number % 5, "body": body});
        let posted = api.post(&product, &format!("rehearsal-{number}"), &comment).await?;
        writeln!(opened, "{}", serde_json::to_string(&posted)?)?;
    }
    Ok(())
}

/// Waits until every filter of a product shows exactly the comments of the file, in order. Returns how many there are.
///
/// # Errors
/// A filter shows something else after this time; the error names it.
pub async fn compare(api: &Client, product: &str, file: &Path, within: Duration) -> anyhow::Result<usize> {
    let product = ProductId::parse(product)?;
    let lines = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let posted: Vec<Posted> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(!posted.is_empty(), "{} has no comment", file.display());
    wait_for(api, &product, of_all(&product, &posted)?, Instant::now() + within).await?;
    Ok(posted.len())
}
