//! Writes that a function gives up do not arrive later. The function is paused in the middle of a
//! call, as Lambda freezes an environment, while its bytes wait in the socket.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use std::time::{Duration, Instant};

use model::Filter;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
};

use crate::fixture::{
    data,
    function::{Function, page_indexer_variables, with},
    runtime_api::Outcome,
    stores::Stores,
    wait_for,
};

const _: crate::Engines = crate::Engines::Embedded("about bytes in a socket");

const NEAR: Duration = Duration::from_secs(3);

/// Number of comments, with long ids: the edits of one transaction exceed the proxy's buffer, and
/// fit into the sender's.
const COMMENTS: u64 = 300;

/// Receive buffer of the proxy's connections, in bytes.
const BUFFER: u32 = 4_096;

/// A proxy that can stop reading. What clients send meanwhile waits in their sockets.
struct Stall {
    url: String,
    is_stalled: watch::Sender<bool>,
    connections: Arc<Connections>,
}

#[derive(Default)]
struct Connections {
    /// Number of connections that wait with bytes of a client.
    waiting: AtomicUsize,
    /// Number of open connections.
    open: AtomicUsize,
}

impl Stall {
    async fn start(server_url: &str) -> Self {
        let server = server_url
            .trim_start_matches("redis://")
            .trim_end_matches('/')
            .to_owned();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(BUFFER).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(16).unwrap();
        let url = format!("redis://{}/", listener.local_addr().unwrap());
        let is_stalled = watch::Sender::new(false);
        let connections = Arc::<Connections>::default();
        tokio::spawn(accept(
            listener,
            server,
            is_stalled.clone(),
            Arc::clone(&connections),
        ));
        Self {
            url,
            is_stalled,
            connections,
        }
    }
}

/// Forwards each connection of a client to the server.
async fn accept(
    listener: TcpListener,
    server: String,
    is_stalled: watch::Sender<bool>,
    connections: Arc<Connections>,
) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(&server).await.unwrap();
        let is_stalled = is_stalled.subscribe();
        let connections = Arc::clone(&connections);
        connections.open.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            forward(client, server, is_stalled, &connections.waiting).await;
            connections.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Forwards requests in small pieces until the client's end.
async fn forward(
    client: TcpStream,
    server: TcpStream,
    mut is_stalled: watch::Receiver<bool>,
    waiting: &AtomicUsize,
) {
    let (mut requests, mut to_client) = client.into_split();
    let (mut answers, mut to_server) = server.into_split();
    // Either side may close the connection.
    tokio::spawn(async move { tokio::io::copy(&mut answers, &mut to_client).await.ok() });
    let mut piece = [0; 256];
    while let Ok(count @ 1..) = requests.read(&mut piece).await {
        waiting.fetch_add(1, Ordering::SeqCst);
        is_stalled.wait_for(|is_stalled| !is_stalled).await.unwrap();
        waiting.fetch_sub(1, Ordering::SeqCst);
        if to_server.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_a_paused_function_gave_up_never_reaches_redis() {
    let stores = Stores::start_with_redis().await;
    let stall = Stall::start(&stores.redis().url).await;
    let variables = with(
        page_indexer_variables(&stores),
        &[("PAGEMARK_REDIS_URL", stall.url.as_str())],
    );
    let indexer = Function::start("page-indexer", variables).await;
    stores.create_all(0..3, |_| data::product("first")).await;
    let first = stores.lambda_records().await;
    assert_eq!(indexer.deliver(&first).await, Vec::<String>::new());

    let late = data::product("late");
    let mut comments = Vec::new();
    for number in 0..COMMENTS {
        let id = format!("{number:050}");
        comments.push(data::new_comment(&id, &late, "en", 1 + number % 5));
    }
    stores.put_primary_items(comments).await;
    let second = stores.lambda_records().await.split_off(first.len());
    let event = json!({ "Records": second }).to_string();
    stall.is_stalled.send_replace(true);
    let answer = indexer.api.invoke(event, NEAR);
    let deadline = Instant::now() + NEAR;
    wait_for("the call", async || {
        if stall.connections.waiting.load(Ordering::SeqCst) > 0 {
            Ok(())
        } else {
            Err("no call")
        }
    })
    .await;
    indexer.signal("STOP");
    wait_for("the deadline", async || {
        if Instant::now() > deadline {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    indexer.signal("CONT");
    let Outcome::Response(answer) = answer.await.unwrap() else {
        panic!("the function failed")
    };
    assert!(
        !answer["batchItemFailures"].as_array().unwrap().is_empty(),
        "{answer}"
    );

    // Everything arrives now that the sockets still send.
    stall.is_stalled.send_replace(false);
    wait_for("the end of all connections", async || {
        match stall.connections.open.load(Ordering::SeqCst) {
            0 => Ok(()),
            open => Err(open),
        }
    })
    .await;
    let sets = Filter::ANY.base_sets(&late);
    let sizes = stores.index.sizes(&sets).await.unwrap();
    assert_eq!(sizes, [0; 5], "the edits arrived late");
    assert_eq!(indexer.deliver(&second).await, Vec::<String>::new());
    indexer.finish().await;
    stores.finish().await;
}
