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
use model::{
    Cd, CommentId, Filter, Placement, ProductId, RatingSet, Timestamp,
    plan::{index_edits, reconcile::Places},
};
use page_index::{ConfirmationTime, PageIndex, PositionQuery, RankedQuery, StatsWanted};
use process::{Remedy, StoreError, now};
use redis_index::{IamLogin, RedisIndexConfig, RedisMode};

use crate::fixture::{
    certificates::Certificates,
    data, free_port,
    iam::{self, IamDoor},
    project_file,
    redis_cluster::{PORTS, RedisCluster},
    redis_server::{self, OwnRedis, TABLE_ID},
};

/// Number of comments: enough that a union of sets is searched.
const COMMENTS: u64 = 100;

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
    data::at_ms(data::CREATED_MS + i64::try_from(number * number).unwrap())
}

async fn index_comments(index: &PageIndex) -> Result<(), StoreError> {
    // The only comment of a product is created, gets a different rating, and is deleted.
    let of_other = |number| Placement {
        product: data::product("other"),
        ..placement(number)
    };
    index
        .apply(&data::index_comment(&id(COMMENTS), &of_other(1), now()))
        .await?;
    for last in [
        Some((&of_other(1), now())),
        Some((&of_other(2), now())),
        None,
    ] {
        index
            .apply(&index_edits(
                &id(COMMENTS),
                last,
                &[of_other(1), of_other(2)],
            ))
            .await?;
    }
    Ok(())
}

async fn read(index: &PageIndex) -> Result<(), StoreError> {
    index.ping().await?;
    index.readiness(TABLE_ID, now()).await?;
    let product = product();
    for ratings in ["3", "1.2.5"] {
        let filter = Filter::new(None, RatingSet::parse(ratings).ok());
        let all = RankedQuery::new(&product, &filter);
        let (as_of, stats) = (Some(now()), StatsWanted::WithLanguages);
        for answer in index
            .ranked(
                &[RankedQuery {
                    skip: 10,
                    count: 20,
                    as_of,
                    stats,
                    ..all
                }],
                TABLE_ID,
                now(),
            )
            .await?
        {
            answer.unwrap();
        }
    }
    let (cd, settled_at) = (
        Cd {
            created_at: created_at(50),
            id: id(50),
        },
        Some(now()),
    );
    let place = PositionQuery {
        product: &product,
        filter: &Filter::ANY,
        cd: &cd,
        settled_at,
    };
    index.position(&place, TABLE_ID, now()).await?.unwrap();
    index
        .products(index.partition_of(&product), TABLE_ID, now())
        .await?
        .unwrap();
    Ok(())
}

/// The calls of the repair job outside a rebuild. It reads the places of comments, scans the index,
/// advances the watermarks, and confirms the partitions.
async fn compare(index: &PageIndex) -> Result<(), StoreError> {
    index.ranks(&id(1), &Places::of([&placement(1)])).await?;
    let mut position = index.begin_index_scan().await?;
    while index.next_index_part(&mut position).await?.is_some() {}
    index.forget_if_empty(&product(), None).await?;
    let servers = index.server_identity().await?;
    let watermarks = index
        .marks(TABLE_ID)
        .await?
        .into_iter()
        .map(|(partition, mark)| (partition, mark.watermark));
    let prepared = index
        .prepare_advance(TABLE_ID, &watermarks.collect_vec(), &servers)
        .await?;
    index.advance(prepared, now().plus_ms(1)).await?;
    let marks = index
        .marks(TABLE_ID)
        .await?
        .into_iter()
        .map(|(partition, mark)| (partition, mark.token))
        .collect_vec();
    let left = index
        .leave_token(TABLE_ID, &marks, "a token", ConfirmationTime::At(now()))
        .await?;
    assert!(!left.is_empty());
    Ok(())
}

async fn rebuild(index: &PageIndex) -> Result<(), StoreError> {
    let rebuild = index.begin_rebuild().await?;
    index_comments(index).await?;
    let edits = (0..COMMENTS)
        .flat_map(|number| data::index_comment(&id(number), &placement(number), created_at(number)))
        .collect_vec();
    index.apply(&edits).await?;
    index.finish_rebuild(&rebuild, TABLE_ID, now()).await
}

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

#[tokio::test]
async fn only_a_server_certified_by_the_configured_authority_is_trusted() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let (redis, tls_port) = start_with_tls(&certificates).await;
    let connect = |host: &str, ca: Option<PathBuf>| {
        let config = redis_server::config_at(&format!("rediss://{host}:{tls_port}/"));
        redis_index::connect(&RedisIndexConfig { ca, ..config })
    };
    let index = connect("127.0.0.1", Some(certificates.authority())).unwrap();
    rebuild(&index).await.unwrap();
    read(&index).await.unwrap();
    // A different authority, the system's authorities, and an address that the certificate does not
    // cover.
    for (host, ca) in [
        ("127.0.0.1", Some(others.authority())),
        ("127.0.0.1", None),
        ("localhost", Some(certificates.authority())),
    ] {
        let detail = refused(connect(host, ca).unwrap().ping().await);
        assert!(
            detail.contains("certificate") && detail.contains("PAGEMARK_REDIS_CA"),
            "{host}: {detail}"
        );
    }
    let detail = refused(connect("127.0.0.1", Some("/no/such.pem".into())).map(|_| ()));
    assert!(
        detail.contains("PAGEMARK_REDIS_CA") && detail.contains("/no/such.pem"),
        "{detail}"
    );
    // The port does not speak TLS.
    let plain = redis.server.url().replace("redis://", "rediss://");
    let config = RedisIndexConfig {
        ca: Some(certificates.authority()),
        ..redis_server::config_at(&plain)
    };
    redis_index::connect(&config)
        .unwrap()
        .ping()
        .await
        .unwrap_err();
}

#[tokio::test]
async fn a_wrong_user_and_a_wrong_kind_of_server_are_named() {
    let redis = OwnRedis::start().await;
    redis
        .ask::<()>("ACL SETUSER known on >right ~* +hmget")
        .await;
    let connect = |mode, user: &str| {
        let url = redis
            .server
            .url()
            .replace("redis://", &format!("redis://{user}"));
        redis_index::connect(&RedisIndexConfig {
            mode,
            ..redis_server::config_at(&url)
        })
        .unwrap()
    };
    connect(RedisMode::Single, "known:right@")
        .ping()
        .await
        .unwrap();
    let detail = refused(connect(RedisMode::Single, "known:wrong@").ping().await);
    assert!(
        detail.contains("PAGEMARK_REDIS_URL") && !detail.contains("wrong@"),
        "{detail}"
    );
    let detail = refused(index_comments(&connect(RedisMode::Single, "known:right@")).await);
    assert!(
        detail.contains("multi") && detail.contains("docs/operate.md"),
        "{detail}"
    );
    let detail = refused(connect(RedisMode::Cluster, "").ping().await);
    assert!(
        detail.contains("PAGEMARK_REDIS_MODE=cluster is for a Redis Cluster"),
        "{detail}"
    );
    // The next connection can use a password that was added later.
    let index = connect(RedisMode::Single, "known:later@");
    refused(index.ping().await);
    redis.ask::<()>("ACL SETUSER known >later").await;
    index.ping().await.unwrap();
}

#[tokio::test]
async fn each_connection_logs_in_with_a_token_of_its_own_that_aws_would_sign() {
    let redis = OwnRedis::start().await;
    let door = IamDoor::start(&redis.server.url(), "pagemark-api").await;
    // They differ each time, like those of a role over the hours.
    let rotated = provide_credentials_fn(|| async {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (key, session) = (format!("AKID{number}"), format!("session/{number}+=="));
        Ok(Credentials::new(
            key,
            iam::SECRET_KEY,
            Some(session),
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
        assert_eq!(
            (tokens.len(), tokens.iter().unique().count()),
            (connections, connections),
            "{tokens:?}"
        );
    }
    // An old token is refused, and the error names the settings.
    let url = redis
        .server
        .url()
        .replace("redis://", "redis://pagemark-api@");
    let old = redis_index::connect(&RedisIndexConfig { url, ..config }).unwrap();
    let detail = refused(old.ping().await);
    assert!(
        detail.contains("PAGEMARK_REDIS_IAM") && !detail.contains("X-Amz"),
        "{detail}"
    );
}

/// The users of Redis in docs/operate.md, with their rules.
fn documented_users() -> Vec<(String, Vec<String>)> {
    let text = project_file("docs/operate.md");
    let users = text
        .lines()
        .filter_map(|line| line.strip_prefix("ACL SETUSER "));
    let user = |line: &str| {
        let (name, rest) = line.split_once(" on >PASSWORD ").unwrap();
        (
            name.to_owned(),
            rest.split(' ').map(str::to_owned).collect(),
        )
    };
    users.map(user).collect()
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
    rebuild(&redis_index::connect(&config).unwrap())
        .await
        .unwrap();
    let masters = cluster.masters().await;
    // All nodes get the user with exactly these permissions, and the masters forget their scripts.
    let become_user = async |name: &str, permissions: &[&String]| {
        for node in 0..cluster.len() {
            let permissions = permissions.iter().join(" ");
            cluster
                .ask::<()>(
                    node,
                    &format!("ACL SETUSER {name} reset on >secret {permissions}"),
                )
                .await;
            if masters.contains(&node) {
                cluster.ask::<()>(node, "SCRIPT FLUSH").await;
            }
        }
        let url = config
            .url
            .replace("rediss://", &format!("rediss://{name}:secret@"));
        redis_index::connect(&RedisIndexConfig {
            url,
            ..config.clone()
        })
        .unwrap()
    };
    let act = async |name: &str, index: &PageIndex| match name {
        "page-indexer" => index_comments(index).await,
        "api" => read(index).await,
        "repair-job" => {
            rebuild(index).await?;
            compare(index).await
        }
        other => panic!("this test does not know the calls of {other}"),
    };
    let users = documented_users();
    assert_eq!(users.len(), 3);
    for (name, permissions) in &users {
        let all = permissions.iter().collect_vec();
        act(name, &become_user(name, &all).await)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        for taken in permissions {
            // Needed only while a slot is being moved.
            if taken == "+asking" {
                continue;
            }
            let fewer = permissions
                .iter()
                .filter(|permission| *permission != taken)
                .collect_vec();
            let outcome = act(name, &become_user(name, &fewer).await).await;
            let Err(error) = outcome else {
                panic!("{name} does not need {taken}")
            };
            // Redis answers an EXEC without permission like an EXEC in the middle of a fail-over.
            assert!(
                error.remedy() == Remedy::CallOperator || taken == "+exec",
                "{name} without {taken}: {error}"
            );
            let detail = error.to_string();
            let named = taken.trim_start_matches('+');
            // Redis 7.0 does not name the permission that a script lacks.
            let says = [
                named,
                "access one of the keys",
                "user executing the script",
                "ACL failure in script",
            ];
            assert!(
                says.iter().any(|part| detail.contains(part)),
                "{name} without {taken}: {detail}"
            );
        }
    }
}
