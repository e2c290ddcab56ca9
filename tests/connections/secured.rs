//! TLS and users: the documented settings and permissions are sufficient, and errors name missing
//! ones.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use aws_credential_types::{
    Credentials, credential_fn::provide_credentials_fn, provider::SharedCredentialsProvider,
};
use itertools::Itertools;
use local_stack::settings::StackSettings;
use model::{
    Cd, CommentId, Filter, Placement, ProductId, Timestamp,
    plan::{index_edits, reconcile::Places},
};
use page_index::{ConfirmationTime, PageIndex, PositionQuery, RankedQuery, StatsWanted};
use process::{Remedy, StoreError, now};
use redis_index::{IamLogin, RedisIndexConfig, RedisMode};
use table::{Table, TableConfig};

use crate::fixture::{
    certificates::Certificates,
    data, free_port,
    iam::{self, IamDoor},
    project_file,
    redis_cluster::{PORTS, RedisCluster},
    redis_server::{self, OwnRedis, TABLE_ID},
    stack::{self, Running},
};

const _: crate::Engines = crate::Engines::Embedded("about connections to Redis");

/// Number of comments: enough for closed blocks.
const COMMENTS: u64 = 400;

fn product() -> ProductId {
    data::product(data::PRODUCT)
}

fn placement(number: u64) -> Placement {
    data::placement(&product(), "en", 1 + number % 5)
}

fn id(number: u64) -> CommentId {
    data::comment_id(&format!("c{number}"))
}

fn created_at(number: u64) -> Timestamp {
    data::at_ms(data::CREATED_MS + i64::try_from(number / 40).unwrap())
}

/// Comments of a product are created and deleted, the last one after it got a different rating.
async fn index_comments(index: &PageIndex) -> Result<(), StoreError> {
    let product = data::product("other");
    let placement = data::placement(&product, "en", 2);
    let mut creations = Vec::new();
    let mut deletions = Vec::new();
    for number in 0..COMMENTS {
        let id = id(number);
        creations.extend(data::index_comment(&id, &placement, created_at(number)));
        let entry = data::entry(&placement, created_at(number));
        deletions.extend(index_edits(&id, None, &[entry]));
    }
    index.apply(&creations).await?;
    index.apply(&deletions).await?;
    let id = id(COMMENTS);
    let both = [2, 3].map(|stars| data::entry(&data::placement(&product, "en", stars), now()));
    index.apply(&index_edits(&id, Some(&both[0]), &[])).await?;
    for last in [Some(&both[0]), Some(&both[1]), None] {
        index.apply(&index_edits(&id, last, &both)).await?;
    }
    Ok(())
}

async fn read(index: &PageIndex) -> Result<(), StoreError> {
    index.ping().await?;
    index.readiness(TABLE_ID, now()).await?;
    let product = product();
    for ratings in ["3", "1.2.5"] {
        let filter = data::filter(None, Some(ratings));
        let query = RankedQuery {
            skip: 10,
            count: 20,
            as_of: Some(now()),
            stats: StatsWanted::WithLanguages,
            ..RankedQuery::new(&product, &filter)
        };
        for answer in index.ranked(&[query], TABLE_ID, now()).await? {
            answer.unwrap();
        }
    }
    let cd = Cd {
        created_at: created_at(50),
        id: id(50),
    };
    let query = PositionQuery {
        product: &product,
        filter: &Filter::ANY,
        cd: &cd,
        settled_at: Some(now()),
    };
    index.position(&query, TABLE_ID, now()).await?.unwrap();
    let partition = index.partition_of(&product);
    index.products(partition, TABLE_ID, now()).await?.unwrap();
    index.server_identity().await?;
    Ok(())
}

/// The calls of the repair job outside a rebuild. It reads the ranks of comments, scans the index,
/// advances the watermarks, and confirms the partitions.
async fn compare(index: &PageIndex) -> Result<(), StoreError> {
    let places = Places::of(&data::entry(&placement(1), created_at(1)));
    index.ranks(&id(1), &places).await?;
    index.ranks(&id(1), &places.at_any_time()).await?;
    index.recount(&product()).await?;
    let mut position = index.begin_index_scan().await?;
    while index.next_index_part(&mut position).await?.is_some() {}
    index.forget_if_empty(&product(), None).await?;
    let servers = index.server_identity().await?;
    let mut watermarks = Vec::new();
    for (partition, mark) in index.marks(TABLE_ID).await? {
        watermarks.push((partition, mark.watermark));
    }
    let prepared = index
        .prepare_advance(TABLE_ID, &watermarks, &servers)
        .await?;
    index.advance(prepared, now().plus_ms(1)).await?;
    let mut tokens = Vec::new();
    for (partition, mark) in index.marks(TABLE_ID).await? {
        tokens.push((partition, mark.token));
    }
    let confirmed = index
        .leave_token(TABLE_ID, &tokens, "a token", ConfirmationTime::At(now()))
        .await?;
    assert!(!confirmed.is_empty());
    Ok(())
}

async fn rebuild(index: &PageIndex) -> Result<(), StoreError> {
    let rebuild = index.begin_rebuild().await?;
    index_comments(index).await?;
    let mut edits = Vec::new();
    for number in 0..COMMENTS {
        let placement = placement(number);
        edits.extend(data::index_comment(
            &id(number),
            &placement,
            created_at(number),
        ));
    }
    index.apply(&edits).await?;
    index.finish_rebuild(&rebuild, TABLE_ID, now()).await
}

/// The detail of a refusal that a person has to do something about.
fn refused(outcome: Result<(), StoreError>) -> String {
    match outcome {
        Err(StoreError::Call {
            remedy: Remedy::CallOperator,
            detail,
            ..
        }) => detail,
        other => panic!("not refused: {other:?}"),
    }
}

async fn start_with_tls(certificates: &Certificates) -> (OwnRedis, u16) {
    let tls_port = free_port(PORTS);
    let arguments = certificates.arguments(tls_port);
    let arguments = arguments.iter().map(String::as_str).collect_vec();
    (OwnRedis::start_with(&arguments).await, tls_port)
}

fn connect(url: &str, ca: Option<PathBuf>) -> Result<PageIndex, StoreError> {
    redis_index::connect(&RedisIndexConfig {
        ca,
        ..redis_server::config_at(url)
    })
}

/// Any server with TLS does: the connection ends before the first request.
#[tokio::test]
async fn an_engine_of_an_unknown_authority_is_named_with_the_variable_that_makes_it_known() {
    let certificates = Certificates::new();
    let (_server, tls_port) = start_with_tls(&certificates).await;
    let url = format!("https://127.0.0.1:{tls_port}");
    let table = Table::connect(&TableConfig::new("pagemark", Some(url))).await;
    let error = table.describe().await.unwrap_err().to_string();
    assert!(error.contains("SSL_CERT_FILE"), "{error}");
}

#[tokio::test]
async fn only_a_server_certified_by_the_configured_authority_is_trusted() {
    let certificates = Certificates::new();
    let others = Certificates::new();
    let (redis, tls_port) = start_with_tls(&certificates).await;
    let by_address = format!("rediss://127.0.0.1:{tls_port}/");
    let by_name = format!("rediss://localhost:{tls_port}/");
    let index = connect(&by_address, Some(certificates.authority())).unwrap();
    rebuild(&index).await.unwrap();
    read(&index).await.unwrap();
    // A different authority, the system's authorities, and an address that the certificate does not
    // cover.
    for (url, ca) in [
        (&by_address, Some(others.authority())),
        (&by_address, None),
        (&by_name, Some(certificates.authority())),
    ] {
        let detail = refused(connect(url, ca).unwrap().ping().await);
        assert!(detail.contains("certificate"), "{url}: {detail}");
        assert!(detail.contains("PAGEMARK_REDIS_CA"), "{url}: {detail}");
    }
    let detail = refused(connect(&by_address, Some("/no/such.pem".into())).map(drop));
    assert!(detail.contains("PAGEMARK_REDIS_CA"), "{detail}");
    assert!(detail.contains("/no/such.pem"), "{detail}");
    // The port does not speak TLS.
    let plain = redis.server.url().replace("redis://", "rediss://");
    let index = connect(&plain, Some(certificates.authority())).unwrap();
    index.ping().await.unwrap_err();
}

/// Connects with a user in the URL, such as `name:password@`.
fn connect_as(redis: &OwnRedis, user: &str, mode: RedisMode) -> PageIndex {
    let with_user = format!("redis://{user}");
    let url = redis.server.url().replace("redis://", &with_user);
    let config = RedisIndexConfig {
        mode,
        ..redis_server::config_at(&url)
    };
    redis_index::connect(&config).unwrap()
}

#[tokio::test]
async fn a_wrong_user_and_a_wrong_kind_of_server_are_named() {
    let redis = OwnRedis::start().await;
    redis
        .ask::<()>("ACL SETUSER known on >right ~* +hmget")
        .await;
    let right = connect_as(&redis, "known:right@", RedisMode::Single);
    right.ping().await.unwrap();
    let wrong = connect_as(&redis, "known:wrong@", RedisMode::Single);
    let detail = refused(wrong.ping().await);
    assert!(detail.contains("PAGEMARK_REDIS_URL"), "{detail}");
    assert!(!detail.contains("wrong@"), "{detail}");
    let detail = refused(index_comments(&right).await);
    assert!(detail.contains("evalsha"), "{detail}");
    assert!(detail.contains("docs/operate.md"), "{detail}");
    let cluster = connect_as(&redis, "", RedisMode::Cluster);
    let detail = refused(cluster.ping().await);
    assert!(
        detail.contains("PAGEMARK_REDIS_MODE=cluster is for a Redis Cluster"),
        "{detail}"
    );
    // The next connection can use a password that was added later.
    let index = connect_as(&redis, "known:later@", RedisMode::Single);
    refused(index.ping().await);
    redis.ask::<()>("ACL SETUSER known >later").await;
    index.ping().await.unwrap();
}

#[tokio::test]
async fn a_server_that_runs_no_scripts_is_named_with_what_works() {
    let redis = OwnRedis::start_with(&["--rename-command", "EVALSHA", "hidden"]).await;
    let address = redis.server.url().replace("redis://", "");
    let detail = refused(redis.index().begin_rebuild().await.map(drop));
    for says in [
        address.trim_end_matches('/'),
        "it has no SCRIPT LOAD and EVALSHA",
        "Redis 7 and newer work, and Valkey 8 and newer",
    ] {
        assert!(detail.contains(says), "{detail}");
    }
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn each_connection_logs_in_with_a_token_of_its_own_that_aws_would_sign() {
    let redis = OwnRedis::start().await;
    let door = IamDoor::start(&redis.server.url(), "pagemark-api").await;
    // They differ each time, like those of a role over the hours.
    let rotated = provide_credentials_fn(|| async {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Ok(Credentials::new(
            format!("AKID{number}"),
            iam::SECRET_KEY,
            Some(format!("session/{number}+==")),
            None,
            "rotated",
        ))
    });
    let credentials = SharedCredentialsProvider::new(rotated);
    let login = IamLogin::with_credentials(iam::CLUSTER, iam::REGION, credentials);
    let config = RedisIndexConfig {
        iam: Some(login),
        ..redis_server::config_at(&door.url)
    };
    let index = redis_index::connect(&config).unwrap();
    rebuild(&index).await.unwrap();
    read(&index).await.unwrap();
    assert_eq!(
        door.checked_tokens().await.len(),
        1,
        "a connection stays open"
    );
    // The server ends connections after twelve hours, and at a fail-over. The next call notices it,
    // and succeeds.
    for connections in 2..4 {
        redis.ask::<u64>("CLIENT KILL USER pagemark-api").await;
        index.readiness(TABLE_ID, now()).await.unwrap();
        let tokens = door.checked_tokens().await;
        assert_eq!(tokens.len(), connections, "{tokens:?}");
        assert_eq!(tokens.iter().unique().count(), connections, "{tokens:?}");
    }
    // An old token is refused, and the error names the settings.
    let url = redis
        .server
        .url()
        .replace("redis://", "redis://pagemark-api@");
    let old = redis_index::connect(&RedisIndexConfig { url, ..config }).unwrap();
    let detail = refused(old.ping().await);
    assert!(detail.contains("PAGEMARK_REDIS_IAM"), "{detail}");
    assert!(!detail.contains("X-Amz"), "{detail}");
}

/// The users of Redis in docs/operate.md, with their rules.
fn documented_users() -> Vec<(String, Vec<String>)> {
    let mut users = Vec::new();
    for line in project_file("docs/operate.md").lines() {
        if let Some(user) = line.strip_prefix("ACL SETUSER ") {
            let (name, rules) = user.split_once(" on >PASSWORD ").unwrap();
            let rules = rules.split(' ').map(str::to_owned).collect();
            users.push((name.to_owned(), rules));
        }
    }
    users
}

/// Gives all nodes a user with exactly these permissions, lets the masters forget their scripts,
/// and connects as this user.
async fn become_user(
    cluster: &RedisCluster,
    config: &RedisIndexConfig,
    name: &str,
    permissions: &[&String],
) -> PageIndex {
    let permissions = permissions.iter().join(" ");
    let set_user = format!("ACL SETUSER {name} reset on >secret {permissions}");
    let masters = cluster.masters().await;
    for node in 0..cluster.len() {
        cluster.ask::<()>(node, &set_user).await;
        if masters.contains(&node) {
            cluster.ask::<()>(node, "SCRIPT FLUSH").await;
        }
    }
    let with_user = format!("rediss://{name}:secret@");
    let config = RedisIndexConfig {
        url: config.url.replace("rediss://", &with_user),
        ..config.clone()
    };
    redis_index::connect(&config).unwrap()
}

/// Makes all calls that the part of this name makes.
async fn act_as(name: &str, index: &PageIndex) -> Result<(), StoreError> {
    match name {
        "page-indexer" => index_comments(index).await,
        "api" => read(index).await,
        "repair-job" => {
            rebuild(index).await?;
            compare(index).await
        }
        other => panic!("this test does not know the calls of {other}"),
    }
}

/// An error that comes of a missing permission says so.
fn assert_tells(error: &StoreError, name: &str, taken: &str) {
    assert_eq!(
        error.remedy(),
        Remedy::CallOperator,
        "{name} without {taken}: {error}"
    );
    let detail = error.to_string();
    let says = [
        taken.trim_start_matches('+'),
        // Redis 7.0 does not name the permission that a script lacks.
        "access one of the keys",
        "user executing the script",
        "ACL failure in script",
    ];
    assert!(
        says.iter().any(|part| detail.contains(part)),
        "{name} without {taken}: {detail}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stack_works_as_a_user_with_the_documented_permissions() {
    let redis = OwnRedis::start().await;
    let users = documented_users();
    let rules = users.iter().flat_map(|(_, rules)| rules).unique().join(" ");
    redis
        .ask::<()>(&format!("ACL SETUSER up on >secret {rules}"))
        .await;
    let url = redis.server.url().replace("redis://", "redis://up:secret@");
    let settings = StackSettings {
        redis_url: Some(url),
        ..stack::settings()
    };
    let running = Running::start_with(settings).await;
    running.stack.stop().await;
}

#[tokio::test]
async fn the_documented_users_of_a_cluster_with_tls_have_exactly_what_they_need() {
    let certificates = Certificates::new();
    let cluster = RedisCluster::start_with_tls(&certificates).await;
    let config = RedisIndexConfig {
        prefix: "pagemark".to_owned(),
        ca: Some(certificates.authority()),
        ..cluster.config()
    };
    let whole = redis_index::connect(&config).unwrap();
    rebuild(&whole).await.unwrap();
    let users = documented_users();
    assert_eq!(users.len(), 3);
    for (name, permissions) in &users {
        let all = permissions.iter().collect_vec();
        let index = become_user(&cluster, &config, name, &all).await;
        let outcome = act_as(name, &index).await;
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        for taken in permissions {
            // Needed only while a slot is being moved.
            if taken == "+asking" {
                continue;
            }
            let fewer = permissions
                .iter()
                .filter(|permission| *permission != taken)
                .collect_vec();
            let index = become_user(&cluster, &config, name, &fewer).await;
            let Err(error) = act_as(name, &index).await else {
                panic!("{name} does not need {taken}")
            };
            assert_tells(&error, name, taken);
            // A script that stops in the middle leaves counts that are wrong.
            rebuild(&whole).await.unwrap();
        }
    }
}
