//! PostgreSQL from the PATH: a separate server on a loopback port, statements prepared once, one
//! connection.

use std::{fs, os::unix::fs::MetadataExt, pin::pin, process::Command, sync::Arc};

use anyhow::Context;
use futures_util::FutureExt;
use model::Comment;
use tokio_postgres::{
    Client, NoTls, Statement,
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};

use super::{
    race::Contestant,
    sql::{
        CREATE_INDEXES, CREATE_TABLE, FIND_BLOCK, INSERT_BLOCK, Paging, SqlComment, blocks,
        drawn_in_time, skip,
    },
};
use crate::{
    listing::ExpectedListing,
    server::{Home, ServerProcess, free_port, run},
};

const NAME: &str = "postgres";
const IMMEDIATE_SHUTDOWN: &str = "QUIT";
/// Differences from the defaults. Everything fits into memory, like in the other stores here, and
/// the planner knows that (`random_page_cost`). Compiling statements (`jit`) would cost these short
/// ones more than it saves. All others concern only writing.
const SETTINGS: [&str; 11] = [
    "shared_buffers=2GB",
    "effective_cache_size=4GB",
    "maintenance_work_mem=512MB",
    "random_page_cost=1.1",
    "jit=off",
    "fsync=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=4GB",
    "autovacuum=off",
    "unix_socket_directories=",
];
/// `FREEZE`: rows are frozen on arrival, because no other session sees the table before. The index
/// alone then shows which rows are visible.
const COPY: &str = "COPY comment FROM STDIN WITH (FORMAT binary, FREEZE)";
const TYPES: [Type; 9] = [
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT2,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
];

pub(super) struct Postgres {
    client: Client,
    // Declared last, so that the client is dropped before the server stops.
    _server: ServerProcess,
}

impl Postgres {
    pub(super) async fn fill(
        comments: u32,
        listings: &[Arc<ExpectedListing>],
    ) -> anyhow::Result<Self> {
        let (server, mut client) = start().await?;
        let transaction = client.transaction().await?;
        transaction.batch_execute(CREATE_TABLE).await?;
        let mut rows = pin!(BinaryCopyInWriter::new(
            transaction.copy_in(COPY).await?,
            &TYPES
        ));
        for comment in drawn_in_time(comments)? {
            let Comment {
                id,
                product,
                language,
                rating,
                created_at,
                revision,
                text,
                ..
            } = comment;
            rows.as_mut()
                .write(&[
                    &id.as_str(),
                    &product.as_str(),
                    &language.as_str(),
                    &i16::from(rating.get()),
                    &created_at.epoch_ms(),
                    &revision.to_string(),
                    &text.title,
                    &text.body.as_deref().unwrap_or_default(),
                    &text.author,
                ])
                .await?;
        }
        rows.finish().await?;
        transaction.batch_execute(CREATE_INDEXES).await?;
        for listing in listings {
            let key = listing.key.to_string();
            for (comments, cd) in blocks(listing)? {
                let newest: [&(dyn ToSql + Sync); 4] =
                    [&key, &comments, &cd.created_at.epoch_ms(), &cd.id.as_str()];
                transaction.execute(INSERT_BLOCK, &newest).await?;
            }
        }
        transaction.commit().await?;
        client.batch_execute("VACUUM ANALYZE").await?;
        Ok(Self {
            client,
            _server: server,
        })
    }

    pub(super) async fn contestant<'store>(
        &'store self,
        listing: &'store ExpectedListing,
        paging: Paging,
    ) -> anyhow::Result<Contestant<'store>> {
        let statement = self
            .client
            .prepare(&paging.statement(&listing.key.filter))
            .await?;
        let find_block = self.client.prepare(FIND_BLOCK).await?;
        let name = format!("PostgreSQL {paging}");
        Ok(Contestant::new(name, move |page| {
            let statement = statement.clone();
            let find_block = find_block.clone();
            async move {
                let rows = match paging {
                    Paging::Offset => self.read_by_offset(&statement, listing, page).await?,
                    Paging::Blocks => {
                        self.read_by_block(&statement, &find_block, listing, page)
                            .await?
                    }
                };
                rows.iter().map(comment).collect()
            }
            .boxed_local()
        }))
    }

    async fn read_by_offset(
        &self,
        statement: &Statement,
        listing: &ExpectedListing,
        page: u64,
    ) -> anyhow::Result<Vec<tokio_postgres::Row>> {
        let product = listing.key.product.as_str();
        let parameters: [&(dyn ToSql + Sync); 2] = [&product, &skip(page)?];
        Ok(self.client.query(statement, &parameters).await?)
    }

    async fn read_by_block(
        &self,
        statement: &Statement,
        find_block: &Statement,
        listing: &ExpectedListing,
        page: u64,
    ) -> anyhow::Result<Vec<tokio_postgres::Row>> {
        let key = listing.key.to_string();
        let parameters: [&(dyn ToSql + Sync); 2] = [&key, &skip(page)?];
        let block = self.client.query_one(find_block, &parameters).await?;
        let created_ms: i64 = block.try_get(0)?;
        let id: String = block.try_get(1)?;
        let newer: i64 = block.try_get(2)?;
        let product = listing.key.product.as_str();
        let offset = skip(page)? - newer;
        let parameters: [&(dyn ToSql + Sync); 4] = [&product, &created_ms, &id, &offset];
        Ok(self.client.query(statement, &parameters).await?)
    }
}

fn comment(row: &tokio_postgres::Row) -> anyhow::Result<Comment> {
    SqlComment {
        id: row.try_get(0)?,
        product: row.try_get(1)?,
        language: row.try_get(2)?,
        rating: row.try_get(3)?,
        created_ms: row.try_get(4)?,
        revision: row.try_get(5)?,
        title: row.try_get(6)?,
        body: row.try_get(7)?,
        author: row.try_get(8)?,
    }
    .into_comment()
}

async fn start() -> anyhow::Result<(ServerProcess, Client)> {
    let home = Home::new()?;
    let port = free_port()?;
    let data = home.path("data");
    fs::create_dir(&data)?;
    // PostgreSQL refuses to run as root. Then it runs as the user that its packages create.
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    if is_root {
        run(Command::new("chown").args(["-R", NAME]).arg(home.path("")))?;
    }
    let mut initdb = own_command("initdb", is_root);
    initdb
        .args(["--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"])
        .current_dir("/");
    run(initdb.args(["--username", NAME, "--pgdata"]).arg(&data))
        .context("run scripts/ensure-postgres.sh")?;
    let mut postgres = own_command("postgres", is_root);
    postgres
        .arg("-D")
        .arg(&data)
        .args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    for setting in SETTINGS {
        postgres.args(["-c", setting]);
    }
    home.start(&mut postgres, IMMEDIATE_SHUTDOWN, async || {
        connect(port).await
    })
    .await
}

/// A program of PostgreSQL. Root runs it as PostgreSQL's user.
fn own_command(program: &str, is_root: bool) -> Command {
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NAME, "--regid", NAME, "--clear-groups", program]);
    command
}

async fn connect(port: u16) -> anyhow::Result<Client> {
    let address = format!("host=127.0.0.1 port={port} user={NAME} dbname={NAME}");
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
    // It ends with the client. If it ends earlier, the next statement fails.
    tokio::spawn(connection);
    Ok(client)
}
