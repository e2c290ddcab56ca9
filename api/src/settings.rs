//! What the service is told.

use std::{fmt, net::SocketAddr, str::FromStr};

use clap::Parser;
use model::ProductId;
use stores::config::{CommentBlobArgs, PageIndexArgs, TableArgs};

/// Threads that serve requests. They wait for the stores nearly all the time.
const DEFAULT_WORKERS: usize = 2;

/// Serves the comments of products: a JSON API and pages for people.
#[derive(Debug, Clone, Parser)]
#[command(name = "api", version)]
pub struct Settings {
    /// Where the table is.
    #[command(flatten)]
    pub table: TableArgs,
    /// How comments are written.
    #[command(flatten)]
    pub comment_blob: CommentBlobArgs,
    /// Where the page index is.
    #[command(flatten)]
    pub page_index: PageIndexArgs,
    /// Address and port to serve at; port 0 takes a free one.
    #[arg(long, env = "PAGEMARK_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// A bearer token that allows writing; repeatable, or separated by commas. Without one, nobody may write.
    #[arg(
        long = "write-token",
        env = "PAGEMARK_WRITE_TOKENS",
        value_name = "TOKEN",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub write_tokens: Vec<WriteToken>,
    /// The key that seals cursors, 64 hex digits, the same for all processes that serve one site. Without it, cursors
    /// are good for this process only.
    #[arg(long, env = "PAGEMARK_CURSOR_KEY", value_name = "HEX", hide_env_values = true)]
    pub cursor_key: Option<CursorKey>,
}

/// What the service needs besides its stores.
#[derive(Debug, Clone)]
pub struct ApiSettings {
    /// Who may write; nobody, when it is empty.
    pub write_tokens: Vec<WriteToken>,
    /// The key that seals cursors.
    pub cursor_key: CursorKey,
    /// Threads that serve requests.
    pub workers: usize,
    /// Products that the start page links to.
    pub sample_products: Vec<ProductId>,
}

impl ApiSettings {
    /// Nobody may write, two workers, no products on the start page.
    pub fn new(cursor_key: CursorKey) -> Self {
        Self { write_tokens: Vec::new(), cursor_key, workers: DEFAULT_WORKERS, sample_products: Vec::new() }
    }
}

impl Default for ApiSettings {
    /// As [`ApiSettings::new`], with a key of its own: cursors end with the process.
    fn default() -> Self {
        Self::new(CursorKey::random())
    }
}

/// A bearer token that allows writing; it is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct WriteToken(String);

impl WriteToken {
    /// The secret itself.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl FromStr for WriteToken {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // What a client can send in a header without quoting.
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a write token is one or more visible ASCII characters, without spaces");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for WriteToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteToken(…)")
    }
}

/// The key that seals cursors: 32 bytes, two keys of AES-128 as AES-SIV wants them. It is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct CursorKey([u8; 32]);

impl CursorKey {
    /// The key of these bytes, which must be random and secret.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new key, known to nobody: the cursors sealed with it end with the process.
    pub fn random() -> Self {
        Self(rand::random())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for CursorKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const PROBLEM: &str = "the cursor key must be 64 hex digits, as `openssl rand -hex 32` prints them";
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(PROBLEM);
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| PROBLEM)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| PROBLEM)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CursorKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Settings, clap::Error> {
        let needed = ["api", "--table", "comments", "--redis-url", "redis://127.0.0.1"];
        Settings::try_parse_from(needed.iter().chain(flags))
    }

    #[test]
    fn tokens_are_repeated_or_separated_by_commas_and_never_shown() {
        let settings = parse(&["--write-token", "one,two", "--write-token", "three"]).unwrap();
        let secrets: Vec<&str> = settings.write_tokens.iter().map(WriteToken::secret).collect();
        assert_eq!(secrets, ["one", "two", "three"]);
        assert!(!format!("{settings:?}").contains("three"));
        assert!(parse(&["--write-token", ""]).is_err());
    }

    #[test]
    fn a_cursor_key_is_64_hex_digits() {
        let key = "0f".repeat(32);
        assert_eq!(parse(&["--cursor-key", &key]).unwrap().cursor_key, Some(CursorKey::new([15; 32])));
        for wrong in ["", "0f", &"0g".repeat(32), &"+f".repeat(32), &"é".repeat(32)] {
            assert!(parse(&["--cursor-key", wrong]).is_err(), "{wrong}");
        }
    }
}
