//! A separate MariaDB for the measurement, on a Unix socket in its folder. It holds the ranks of comments.
//!
//! A statement goes through MariaDB's command-line client, which stays connected and answers line by line. That adds two
//! pipes to each request, some tens of microseconds. A crate for the protocol would bring 21 others.

use std::{
    cell::RefCell,
    fs,
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, ensure};
use model::Cd;

use super::{
    ranks,
    server::{Home, Server, folder_of, run},
};
use crate::listing::Listing;

/// The operating system's user when this process runs as root.
const USER: &str = "mysql";
/// Debian keeps the server here, which is not on every user's PATH.
const DEBIAN_FOLDER: &str = "/usr/sbin";
/// Nothing is to be saved.
const END: &str = "KILL";
/// Differences from the defaults. Everything fits into memory, and texts compare by their bytes, like DynamoDB's keys.
/// The others concern only writing, and that only this process may connect.
const SETTINGS: [&str; 7] = [
    "--innodb-buffer-pool-size=1G",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_bin",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--skip-log-bin",
    "--skip-networking",
];

pub(super) struct Mariadb {
    client: RefCell<Client>,
    /// The server's version and settings.
    pub(super) about: String,
    // Declared last, so that the client is dropped before the server stops.
    _server: Server,
}

impl Mariadb {
    /// Starts a server and fills it with the ranks of these listings.
    pub(super) async fn fill(listings: &[Arc<Listing>]) -> anyhow::Result<Self> {
        let home = Home::new(USER)?;
        let (data, socket, rows) = (home.path("data"), home.path("socket"), home.path("rows"));
        let mut install = home.command(&program("mariadb-install-db")?);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        run(install.arg(format!("--datadir={}", data.display())))?;
        write_rows(&rows, listings)?;

        let mut mariadbd = home.command(&program("mariadbd")?);
        mariadbd.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
        mariadbd.arg(format!("--socket={}", socket.display())).args(SETTINGS);
        let client = program("mariadb")?;
        let connect = async || Client::connect(&client, &socket);
        let (server, (mut client, version)) = home.start(&mut mariadbd, END, connect).await?;
        client.send("CREATE DATABASE bench; USE bench")?;
        client.send(ranks::CREATE_TABLE)?;
        client.send(&format!("LOAD DATA INFILE '{}' INTO TABLE comment_rank", rows.display()))?;
        client.send(&format!("PREPARE page_before FROM '{}'", ranks::BEFORE))?;
        client.send(&format!("PREPARE total FROM '{}'", ranks::COUNT))?;
        // The answer comes when the rows are loaded.
        client.ask("SELECT 1")?;
        fs::remove_file(rows)?;
        let about =
            format!("MariaDB {version}, {}", SETTINGS.map(|setting| setting.trim_start_matches('-')).join(", "));
        Ok(Self { client: RefCell::new(client), about, _server: server })
    }

    /// The comment before a page; `None` for page 1.
    pub(super) fn before(&self, listing: &Listing, page: u64) -> anyhow::Result<Option<Cd>> {
        let Some(skip) = ranks::skip(page) else { return Ok(None) };
        let statement = format!("EXECUTE page_before USING {}, {skip}", literal(listing)?);
        Ok(Some(Cd::parse(&self.client.borrow_mut().ask(&statement)?)?))
    }

    /// The number of comments in the listing, as a page bar needs it.
    pub(super) fn count(&self, listing: &Listing) -> anyhow::Result<u64> {
        let statement = format!("EXECUTE total USING {}", literal(listing)?);
        Ok(self.client.borrow_mut().ask(&statement)?.parse()?)
    }
}

/// MariaDB's command-line client. It ends when its input does.
struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// A connected client, and the server's version.
    fn connect(program: &Path, socket: &Path) -> anyhow::Result<(Self, String)> {
        let mut command = Command::new(program);
        command.args(["--no-defaults", "--batch", "--skip-column-names", "--unbuffered", "--user=root"]);
        command.arg(format!("--socket={}", socket.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take().context("the client's input")?;
        let output = BufReader::new(child.stdout.take().context("the client's output")?);
        let mut client = Self { child, input, output };
        let version = client.ask("SELECT version()")?;
        Ok((client, version))
    }

    /// Sends a statement that answers nothing. If it fails, the client ends, and the next answer is missing.
    fn send(&mut self, statement: &str) -> anyhow::Result<()> {
        Ok(self.input.write_all(format!("{statement};\n").as_bytes())?)
    }

    /// The answer to a statement: one row with one column.
    fn ask(&mut self, statement: &str) -> anyhow::Result<String> {
        self.send(statement)?;
        let mut row = String::new();
        self.output.read_line(&mut row)?;
        let row = row.strip_suffix('\n').with_context(|| format!("MariaDB gives no answer to: {statement}"))?;
        Ok(row.to_owned())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Both calls fail only for a process that has ended and been collected already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The listing's name in a statement.
fn literal(listing: &Listing) -> anyhow::Result<String> {
    let name = listing.key.to_string();
    ensure!(!name.contains(['\'', '\\']), "{name} would need escapes");
    Ok(format!("'{name}'"))
}

/// Writes the rows of all listings, each in order, as the server loads them: one row per line, with a tab between its
/// columns. No key or id contains a tab or a backslash.
fn write_rows(path: &Path, listings: &[Arc<Listing>]) -> anyhow::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    for listing in listings {
        for (cd, _) in listing.around(1).1.iter().rev() {
            writeln!(file, "{}\t{cd}", listing.key)?;
        }
    }
    Ok(file.flush()?)
}

fn program(name: &str) -> anyhow::Result<PathBuf> {
    let folder = folder_of(&[name], [DEBIAN_FOLDER.into()]);
    let missing =
        || format!("{name} was not found; scripts/ensure-mariadb.sh says how to get it, `make bench` asks it");
    Ok(folder.with_context(missing)?.join(name))
}
