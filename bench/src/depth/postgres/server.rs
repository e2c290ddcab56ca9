//! A separate PostgreSQL for the measurement, on a free loopback port.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
};

use anyhow::Context;
use tokio_postgres::{Client, NoTls};

use crate::depth::server::{Home, Server, folder_of, run};

/// The variable that names the folder of `postgres` and `initdb`, instead of the search for them.
const FOLDER_VARIABLE: &str = "PAGEMARK_POSTGRES_BIN";
/// Debian keeps the programs of version N in `N/bin` below this folder, and not on the PATH.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";
const PROGRAMS: [&str; 2] = ["postgres", "initdb"];
/// The user and the database; also the operating system's user when this process runs as root.
const NAME: &str = "postgres";
/// Ends the server at once, with its processes.
const IMMEDIATE_SHUTDOWN: &str = "QUIT";
/// Differences from the defaults. Memory settings: everything fits into memory, like in the other stores here, and the
/// planner knows that (`random_page_cost`); a sort of a million rows need not use a file. All others but `jit` concern
/// only writing. Compiling statements (`jit`) would cost these short statements more than it saves.
pub(super) const SETTINGS: [&str; 12] = [
    "shared_buffers=2GB",
    "effective_cache_size=4GB",
    "work_mem=256MB",
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

/// Creates a data folder in memory, starts a server on it, and waits until it answers.
pub(super) async fn start() -> anyhow::Result<(Server, Client)> {
    let (programs, home) = (programs()?, Home::new(NAME)?);
    let data = home.path("data");
    let mut initdb = home.command(&programs.join("initdb"));
    initdb.args(["--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]);
    run(initdb.args(["--username", NAME, "--pgdata"]).arg(&data))?;

    // The port was free a moment ago.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let mut postgres = home.command(&programs.join("postgres"));
    postgres.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    postgres.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    home.start(&mut postgres, IMMEDIATE_SHUTDOWN, async || connect(port).await).await
}

/// A connection that lasts until the client is dropped.
async fn connect(port: u16) -> anyhow::Result<Client> {
    let address = format!("host=127.0.0.1 port={port} user={NAME} dbname={NAME}");
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
    // It ends with the client. If it ends earlier, the next statement fails.
    tokio::spawn(connection);
    Ok(client)
}

/// The folder of the programs: the one that the environment names, otherwise the first on the PATH, otherwise Debian's
/// newest.
fn programs() -> anyhow::Result<PathBuf> {
    if let Some(folder) =
        env::var_os(FOLDER_VARIABLE).map(PathBuf::from).filter(|folder| !folder.as_os_str().is_empty())
    {
        let has_both = PROGRAMS.iter().all(|program| folder.join(program).is_file());
        return Some(folder).filter(|_| has_both).with_context(|| format!("{FOLDER_VARIABLE} has no postgres"));
    }
    let version = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = fs::read_dir(DEBIAN_VERSIONS).into_iter().flatten();
    let mut of_debian: Vec<PathBuf> = versions.filter_map(|version| Some(version.ok()?.path())).collect();
    of_debian.sort_by_key(version);
    folder_of(&PROGRAMS, of_debian.into_iter().rev().map(|folder| folder.join("bin")))
        .context("PostgreSQL was not found; scripts/ensure-postgres.sh says how to get it, `make bench` asks it")
}
