//! The settings of the service.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use clap::{Args, Parser, builder::NonEmptyStringValueParser};
use deployed_index::PageIndexSettings;
use model::Status;
use table::{CommentBlobArgs, TableArgs};

use crate::{
    secrets::{CursorKey, NamedToken},
    site::SiteSettings,
};

/// Maximum duration of a request. It exceeds one call of each store with its retries.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(25);

/// Serves the comments of products: a JSON API and pages for people.
#[derive(Debug, Clone, Parser)]
#[command(name = "api", version, mut_arg("public_url", |argument| argument.required(true)))]
pub struct Settings {
    #[command(flatten)]
    pub table: TableArgs,
    #[command(flatten)]
    pub comment_blob: CommentBlobArgs,
    #[command(flatten)]
    pub page_index: PageIndexSettings,
    #[command(flatten)]
    pub api: ApiSettings,
}

/// The settings of the service besides its stores. By default nobody may write, and everything is
/// at one address, by which the site is known.
#[derive(Debug, Clone, Args)]
pub struct ApiSettings {
    /// Address and port to serve at; port 0 takes a free one.
    #[arg(
        long,
        env = "PAGEMARK_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080"
    )]
    pub listen: SocketAddr,
    /// Address and port to serve `/livez`, `/readyz` and `/metrics` at, and only there. Without it
    /// they are served with everything else, or by `pagemark up --public-url` at 127.0.0.1:8081.
    #[arg(long, env = "PAGEMARK_OPERATIONS_LISTEN", value_name = "ADDRESS:PORT")]
    pub operations_listen: Option<SocketAddr>,
    /// The namespace of the metrics in CloudWatch. With one, the log has a line with the most
    /// important metrics every minute (the embedded metric format).
    #[arg(long, env = "PAGEMARK_METRICS_NAMESPACE", value_name = "NAME")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub metrics_namespace: Option<String>,
    #[command(flatten)]
    pub site: SiteSettings,
    #[command(flatten)]
    pub writing: WritingSettings,
    /// A key of cursors, 64 hex digits, the same for all processes that serve one site; repeatable,
    /// or separated by commas. The first seals, all open. Without one, cursors end with the
    /// process; `pagemark up` keeps a key in its data folder.
    #[arg(long = "cursor-key", env = "PAGEMARK_CURSOR_KEYS", value_name = "HEX")]
    #[arg(value_delimiter = ',', hide_env_values = true)]
    pub cursor_keys: Vec<CursorKey>,
    /// Requests that may be under way at the same time; further ones are answered 503 at once.
    // A page of 100 of the longest comments takes some 5 MB while it is made, a usual page of 20
    // some 100 KB.
    #[arg(
        long = "max-in-flight",
        env = "PAGEMARK_MAX_IN_FLIGHT",
        value_name = "REQUESTS"
    )]
    #[arg(default_value_t = 256, value_parser = at_least_one)]
    pub in_flight_max: usize,
    /// Connections that there may be at the same time; further ones wait until others end.
    // One takes some 20 KB, or 0.3 MB if it sends requests ahead.
    #[arg(
        long = "max-connections",
        env = "PAGEMARK_MAX_CONNECTIONS",
        value_name = "CONNECTIONS"
    )]
    #[arg(default_value_t = 1_024, value_parser = at_least_one)]
    pub connections_max: usize,
    /// Memory for answers, in MiB, from the reading of the table until they are sent. A request
    /// that finds no room for half a second is answered 503.
    // The default is a quarter of the memory of a deployed task. It has room for 80 pages of 20
    // while they are made (40 front pages of stable numbering), or for 60 of the longest pages of
    // 100 that wait for their readers. The minimum holds two of the longest pages while they are
    // made, or one such front page.
    #[arg(
        long = "answer-memory",
        env = "PAGEMARK_ANSWER_MEMORY",
        value_name = "MIB"
    )]
    #[arg(default_value_t = 256, value_parser = clap::value_parser!(u16).range(32..4096))]
    pub answer_memory_mib: u16,
    /// How long caches may keep pages and listings, in seconds; 0 makes them ask every time.
    // A deleted text stays visible no longer than this after its duplicates are gone.
    #[arg(
        long = "cache-max-age",
        env = "PAGEMARK_CACHE_MAX_AGE",
        value_name = "SECONDS"
    )]
    #[arg(default_value_t = 30)]
    pub cache_max_age_seconds: u32,
    /// How old a comment must be to count for archive pages, in seconds. Younger ones are on the
    /// front page.
    // A comment that a POST creates changes no archive page if the time of a write (30 s), the page
    // indexer's lag (20 s) and the difference of clocks (10 s) stay below it (ADR 57).
    #[arg(
        long = "archive-after",
        env = "PAGEMARK_ARCHIVE_AFTER",
        value_name = "SECONDS"
    )]
    #[arg(default_value_t = 60)]
    pub archive_after_seconds: u32,
    /// How long a product's record is used before it is read again. A new name is on every page
    /// after this time and that of the caches.
    #[arg(skip = Duration::from_secs(60))]
    pub product_max_age: Duration,
    /// How long an idle connection is kept, in seconds. Choose more than the load balancer's time,
    /// or it sends requests on connections that are being closed. A stop ends idle connections.
    // The default is longer than the 60 s of AWS's load balancers, the maximum is a day. If an
    // instant could not be moved by the time, every connection would end in a panic.
    #[arg(
        long = "keep-alive",
        env = "PAGEMARK_KEEP_ALIVE",
        value_name = "SECONDS"
    )]
    #[arg(default_value_t = 75, value_parser = clap::value_parser!(u64).range(..=24 * 3_600))]
    pub keep_alive_seconds: u64,
    /// Number of proxies in front. Each appends its client to `X-Forwarded-For`. The log names the
    /// client that the first proxy saw; with 0 the header is ignored.
    #[arg(
        long,
        env = "PAGEMARK_PROXIES",
        value_name = "NUMBER",
        default_value_t = 0
    )]
    pub proxies: usize,
    /// Whether the table's disk is full, as it is at the moment. A stack on one machine keeps it up
    /// to date.
    #[arg(skip)]
    pub disk_is_full: Arc<AtomicBool>,
    /// The longest that a request may take.
    #[arg(skip = REQUEST_TIMEOUT)]
    pub request_timeout: Duration,
    /// The longest that a body may take to arrive.
    #[arg(skip = Duration::from_secs(10))]
    pub body_timeout: Duration,
    /// How long a client may leave an answer unread, and how long it may take for each MiB.
    /// Somewhat longer than a request may take, so that a slow network is not cut off before a slow
    /// store is.
    #[arg(skip = Duration::from_secs(30))]
    pub unread_timeout: Duration,
}

/// Who may write and moderate. By default nobody may, and new comments are published.
#[derive(Debug, Clone, Default, Args)]
pub struct WritingSettings {
    /// A bearer token: name, scopes and hash (repeatable, or separated by commas). The scopes are
    /// `comments:write`, `comments:moderate` and `products:write`, joined by `+`. The hash has 64
    /// hex digits. Without a token, nobody may write.
    #[arg(
        long = "token",
        env = "PAGEMARK_TOKENS",
        value_name = "NAME/SCOPES/sha256:HEX"
    )]
    #[arg(value_delimiter = ',', hide_env_values = true)]
    pub tokens: Vec<NamedToken>,
    /// Whether readers see a new comment at once (`published`), or a moderator publishes it first
    /// (`pending`).
    #[arg(long, env = "PAGEMARK_NEW_COMMENTS", value_name = "STATUS", default_value_t, value_parser = status_of_new)]
    pub new_comments: Status,
}

fn status_of_new(text: &str) -> Result<Status, &'static str> {
    let status = Status::parse(text)
        .ok()
        .filter(|status| *status != Status::Hidden);
    status.ok_or("must be published or pending")
}

fn at_least_one(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or("must be a whole number from 1 on")
}

impl Default for ApiSettings {
    fn default() -> Self {
        process::defaults(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::{BearerToken, TokenHash, TokenScope};

    fn parse(flags: &[&str]) -> Result<ApiSettings, clap::Error> {
        let needed = [
            "api",
            "--table",
            "comments",
            "--redis-url",
            "redis://127.0.0.1",
        ];
        let needed = needed
            .into_iter()
            .chain(["--public-url", "https://example.com"]);
        Ok(Settings::try_parse_from(needed.chain(flags.iter().copied()))?.api)
    }

    #[test]
    fn tokens_are_repeated_or_separated_by_commas() {
        let hash = TokenHash::of;
        assert_eq!(
            hash("three").to_string(),
            "sha256:8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f"
        );
        let both = [
            format!("shop/comments:write+products:write/{}", hash("one")),
            format!("ann.b/comments:moderate/{}", hash("two")),
        ];
        let third = format!("shop/comments:write/{}", hash("three"));
        let tokens = parse(&["--token", &both.join(","), "--token", &third])
            .unwrap()
            .writing
            .tokens;
        let named: Vec<_> = tokens
            .iter()
            .map(|token| (token.name.as_str(), &token.scopes[..]))
            .collect();
        let shop = &[TokenScope::WriteComments, TokenScope::WriteProducts][..];
        assert_eq!(
            named,
            [
                ("shop", shop),
                ("ann.b", &[TokenScope::ModerateComments]),
                ("shop", &[TokenScope::WriteComments])
            ]
        );
        assert!(
            tokens
                .iter()
                .map(ToString::to_string)
                .eq([&both[..], &[third]].concat())
        );
        // A token itself is refused, so that it does not get into the settings by mistake.
        let hash = hash("one");
        for wrong in [
            String::new(),
            "one".to_owned(),
            hash.to_string(),
            format!("shop/{hash}"),
            format!("shop//{hash}"),
            format!("/comments:write/{hash}"),
            format!("the shop/comments:write/{hash}"),
            format!("shop/comments:read/{hash}"),
            format!("{}/comments:write/{hash}", "x".repeat(65)),
            "shop/comments:write/one".to_owned(),
            format!("shop/comments:write/sha256:{}", "0g".repeat(32)),
        ] {
            assert!(parse(&["--token", &wrong]).is_err(), "{wrong}");
        }
        for (token, is_accepted) in [
            ("", false),
            ("guess", false),
            ("16 with spaces..", false),
            ("0123456789abcdef", true),
        ] {
            assert_eq!(token.parse::<BearerToken>().is_ok(), is_accepted, "{token}");
        }
    }

    #[test]
    fn new_comments_are_published_or_pending() {
        for (flags, status) in [
            (&[][..], Status::Published),
            (&["--new-comments", "published"][..], Status::Published),
            (&["--new-comments", "pending"][..], Status::Pending),
        ] {
            assert_eq!(parse(flags).unwrap().writing.new_comments, status);
        }
        assert!(parse(&["--new-comments", "hidden"]).is_err());
    }

    #[test]
    fn cursor_keys_are_64_hex_digits_each() {
        let keys = [15, 255].map(|byte| CursorKey([byte; 32]));
        let both = format!("{},{}", "0f".repeat(32), "FF".repeat(32));
        assert_eq!(parse(&["--cursor-key", &both]).unwrap().cursor_keys, keys);
        assert!(!format!("{:?}", parse(&["--cursor-key", &both]).unwrap()).contains("0f"));
        for wrong in [
            "",
            "0f",
            &"0g".repeat(32),
            &"+f".repeat(32),
            &"é".repeat(32),
        ] {
            assert!(parse(&["--cursor-key", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_have_bounds() {
        let largest = ["--answer-memory", "4095", "--keep-alive", "86400"];
        let smallest = ["--max-in-flight", "1", "--max-connections", "1"];
        let settings = parse(&[largest, smallest].concat()).unwrap();
        assert_eq!(
            (settings.answer_memory_mib, settings.keep_alive_seconds),
            (4095, 86_400)
        );
        assert_eq!((settings.in_flight_max, settings.connections_max), (1, 1));
        for (flag, wrong) in [
            ("--max-in-flight", vec!["0"]),
            ("--max-connections", vec!["0"]),
            ("--answer-memory", vec!["31", "4096"]),
            ("--keep-alive", vec!["86401", "18446744073709551615", "75s"]),
        ] {
            assert!(
                wrong.iter().all(|number| parse(&[flag, number]).is_err()),
                "{flag} {wrong:?}"
            );
        }
    }
}
