//! A reverse proxy in front of the engine's server: it keeps web pages out.
//!
//! The engine's server answers preflights from any origin and verifies no signature. So any page in a browser on this
//! machine could read and write the table. The proxy refuses every request that a page can send, before it reaches the
//! engine:
//!
//! - A request with an `Origin` header. Browsers send it with every preflight and every POST, and the engine does
//!   nothing on any other method.
//! - A request whose `Host` is a name other than `localhost`. With DNS rebinding, a page's name resolves to this
//!   machine, and its browser treats the engine as the page's origin. But the page cannot change `Host`, and addresses
//!   cannot be rebound.
//!
//! SDKs and command lines send neither.
//!
//! The proxy also sees every write. It lets none begin while the second connection writes (`write_lock`). After the
//! engine's answer it changes a value, for readers of the stream to wait for. It passes the answer on when the write is
//! on the disk (`disk_sync`). It gives slow answers to `DescribeTable` again (`descriptions`).
//!
//! The engine's server accepts connections only from a TCP listener. A second port that stayed open would be a way
//! around the proxy. So each connection to the engine is made through a separate listener: see [`connect`].

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use dynoxide::Database;
use futures_util::FutureExt;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Request, Response, StatusCode, Version,
    body::{Bytes, Incoming},
    client::conn::http1::SendRequest,
    header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, ORIGIN},
    http::uri::Authority,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Mutex, watch},
    task::JoinSet,
};

use super::{
    descriptions::{Answer, Descriptions},
    disk_sync::DiskSync,
    write_lock::WriteLock,
};

/// Pause after a connection that could not be accepted, for example because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longer requests are refused: those that write are read whole before they are passed on. DynamoDB takes up to 16 MB.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// The header that names the operation, such as `DynamoDB_20120810.PutItem`.
const TARGET: &str = "x-amz-target";

/// The operations that write nothing begin with one of these words.
const READS: [&str; 7] = ["BatchGet", "Describe", "Get", "List", "Query", "Scan", "TransactGet"];

/// The operations that write items, and leave the tables and their indexes as they are.
const ITEM_WRITES: [&str; 8] = [
    "BatchExecuteStatement",
    "BatchWriteItem",
    "DeleteItem",
    "ExecuteStatement",
    "ExecuteTransaction",
    "PutItem",
    "TransactWriteItems",
    "UpdateItem",
];

/// A body that is passed on unchanged, or made here.
type Body = Either<Incoming, Full<Bytes>>;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What a request passes through.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) database: Database,
    /// Changes after each request that may have written something.
    pub(super) writes: watch::Sender<()>,
    pub(super) disk: DiskSync,
    pub(super) descriptions: Arc<Descriptions>,
    pub(super) write_lock: WriteLock,
}

/// Serves until `stopped` completes. Then it accepts no more connections, and returns when the requests under way have
/// been answered.
pub(super) async fn serve(
    listener: TcpListener,
    served: Served,
    stopped: impl Future<Output = ()> + Clone + Send + 'static,
) {
    let mut connections = JoinSet::new();
    let mut stop = pin!(stopped.clone());
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, served.clone(), stopped.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "the engine cannot take a connection; it tries again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve_connection(stream: TcpStream, served: Served, stopped: impl Future<Output = ()>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection to the engine was lost at once");
        return;
    }
    let engine = Arc::new(Mutex::new(EngineConnection { database: served.database.clone(), sender: None }));
    let service = service_fn(|request| {
        let (engine, served) = (Arc::clone(&engine), served.clone());
        async move { Ok::<_, Infallible>(answer(request, &engine, &served).await) }
    });
    let ended = {
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the engine broke off");
    }
    // The client's connection is closed. A write or a description may still be under way.
    drop(engine.lock().await);
}

async fn answer(request: Request<Incoming>, engine: &Arc<Mutex<EngineConnection>>, served: &Served) -> Response<Body> {
    if let Some(reason) = refusal(request.headers()) {
        return error_response(StatusCode::FORBIDDEN, "AccessDeniedException", reason);
    }
    let answered = match operation(request.headers()) {
        Some("DescribeTable") => describe(request, engine, &served.descriptions).await,
        _ if may_write(request.headers()) => write(request, engine, served).await,
        _ => engine.lock().await.send(request.map(Either::Left)).await.map(|response| response.map(Either::Left)),
    };
    match answered {
        Ok(response) => response,
        Err(error) if error.is::<LengthLimitError>() => {
            let message = "A request to this engine has at most 16 MiB.";
            error_response(StatusCode::PAYLOAD_TOO_LARGE, "SerializationException", message)
        }
        Err(error) => {
            // This also runs when the client has gone in the middle of its request.
            tracing::debug!(%error, "a request was not passed on to the engine");
            error_response(StatusCode::BAD_GATEWAY, "InternalServerError", "The engine did not answer.")
        }
    }
}

/// Passes a request on that may write something. It is carried out even if the client does not wait for it.
async fn write(
    request: Request<Incoming>,
    engine: &Arc<Mutex<EngineConnection>>,
    served: &Served,
) -> Result<Response<Body>, Error> {
    let changes_tables = may_change_tables(request.headers());
    let (head, body) = request.into_parts();
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await?.to_bytes();
    let mut engine = Arc::clone(engine).lock_owned().await;
    let Served { writes, descriptions, write_lock, .. } = served.clone();
    let written = tokio::spawn(async move {
        let writing = write_lock.request().await;
        let answered = engine.send(Request::from_parts(head, Either::Right(Full::from(body)))).await;
        drop(writing);
        if changes_tables {
            descriptions.forget();
        }
        // The mappings need not wait for the disk.
        writes.send_replace(());
        answered
    });
    let answered = written.await?;
    // A refused write waits, too: it may be refused because an earlier one, which has no answer yet, was made.
    served.disk.wait().await;
    Ok(answered?.map(Either::Left))
}

/// Describes a table, by a kept answer or a new one. A new one is kept even if the client does not wait for it.
async fn describe(
    request: Request<Incoming>,
    engine: &Arc<Mutex<EngineConnection>>,
    descriptions: &Arc<Descriptions>,
) -> Result<Response<Body>, Error> {
    let (head, body) = request.into_parts();
    let asked = Limited::new(body, REQUEST_BYTES_MAX).collect().await?.to_bytes();
    let descriptions = Arc::clone(descriptions);
    let mut engine = Arc::clone(engine).lock_owned().await;
    let made = tokio::spawn(async move {
        let _alone = descriptions.one_at_a_time.lock().await;
        let (began, changes) = (Instant::now(), descriptions.changes());
        if let Some(answer) = descriptions.get(&asked, began) {
            return Ok::<_, Error>(answer);
        }
        let request = Request::from_parts(head, Either::Right(Full::from(asked.clone())));
        let (head, body) = engine.send(request).await?.into_parts();
        let answer = Answer { status: head.status, headers: head.headers, body: body.collect().await?.to_bytes() };
        descriptions.keep(asked, &answer, changes, [began, Instant::now()]);
        Ok(answer)
    });
    Ok(made.await??.into_response().map(Either::Right))
}

/// The reason to refuse a request, if any.
fn refusal(headers: &HeaderMap) -> Option<&'static str> {
    if headers.contains_key(ORIGIN) {
        return Some("Web pages may not use this engine: the request has the header Origin.");
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_expected(host) => None,
        _ => Some("The header Host must be localhost or an IP address, such as 127.0.0.1."),
    }
}

/// Whether a request may write something. An operation that is not known may.
fn may_write(headers: &HeaderMap) -> bool {
    operation(headers).is_some_and(|operation| !READS.iter().any(|word| operation.starts_with(word)))
}

/// Whether a request may change a table or its indexes. An operation that is not known may.
fn may_change_tables(headers: &HeaderMap) -> bool {
    may_write(headers) && operation(headers).is_none_or(|operation| !ITEM_WRITES.contains(&operation))
}

fn operation(headers: &HeaderMap) -> Option<&str> {
    let target = headers.get(TARGET).and_then(|target| target.to_str().ok());
    target.and_then(|target| target.split_once('.')).map(|(_, operation)| operation)
}

/// Whether a `Host` is `localhost` or an address, with any port: ports may be forwarded.
fn is_expected(host: &HeaderValue) -> bool {
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    let name = authority.host();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

/// An error in the shape of DynamoDB's errors.
fn error_response(status: StatusCode, kind: &str, message: &str) -> Response<Body> {
    let body = json!({ "__type": format!("com.amazon.coral.service#{kind}"), "message": message });
    let mut response = Response::new(Either::Right(Full::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}

/// A client's connection to the engine. The first request opens it; if the engine closes it, the next one reopens it.
struct EngineConnection {
    database: Database,
    sender: Option<SendRequest<Body>>,
}

impl EngineConnection {
    async fn send(&mut self, mut request: Request<Body>) -> Result<Response<Incoming>, Error> {
        // These headers concern the client's connection.
        request.headers_mut().remove(CONNECTION);
        *request.version_mut() = Version::HTTP_11;
        let mut open = self.sender.take();
        if let Some(sender) = &mut open
            && sender.ready().await.is_err()
        {
            open = None;
        }
        let mut sender = match open {
            Some(sender) => sender,
            None => connect(listen()?, self.database.clone()).await?,
        };
        let answer = sender.send_request(request).await;
        self.sender = Some(sender);
        Ok(answer?)
    }
}

/// Starts a server of the engine for one connection.
///
/// Its listener is closed as soon as the server has answered a health check, so its port is open for a moment only. On
/// Linux its address cannot be guessed either.
async fn connect(listener: TcpListener, database: Database) -> Result<SendRequest<Body>, Error> {
    let stream = TcpStream::connect(listener.local_addr()?).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection within the engine broke off");
        }
    });
    // The server must not be asked to end before the connection has ended.
    let server = dynoxide::server::serve_with_shutdown(listener, database, connection.map(drop));
    let check = Request::get("/").header(HOST, "localhost").body(Either::Right(Full::default()))?;
    let checked = async {
        let answer = sender.send_request(check).await?;
        answer.into_body().collect().await
    };
    tokio::select! {
        checked = checked => {
            checked?;
        }
        ended = server => return Err(format!("the engine's server ended at once: {ended:?}").into()),
    }
    // Dropping the server closes its listener. The accepted connection stays open.
    Ok(sender)
}

/// A listener for one connection, on any free port.
fn listen() -> io::Result<TcpListener> {
    // The whole of 127.0.0.0/8 is this machine on Linux. Elsewhere it is 127.0.0.1 alone.
    let [_, second, third, fourth] = rand::random::<[u8; 4]>();
    listen_at(Ipv4Addr::new(127, second, third, fourth)).or_else(|_| listen_at(Ipv4Addr::LOCALHOST))
}

fn listen_at(address: Ipv4Addr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((address, 0)))?;
    socket.listen(1)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn write_lock(folder: &std::path::Path) -> WriteLock {
        WriteLock::new(crate::file_lock::FileLock::take(&folder.join("lock")).unwrap())
    }

    #[tokio::test]
    async fn the_port_within_is_closed_once_a_connection_is_made_and_the_connection_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::new(folder.path().join("data.db").to_str().unwrap()).unwrap();
        let listener = listen().unwrap();
        let address = listener.local_addr().unwrap();
        let mut sender = connect(listener, database).await.unwrap();
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        for _ in 0..3 {
            sender.ready().await.unwrap();
            let check = Request::get("/").header(HOST, "localhost").body(Either::Right(Full::default())).unwrap();
            let answer = sender.send_request(check).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            answer.into_body().collect().await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_write_whose_client_goes_away_is_announced() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::new(folder.path().join("data.db").to_str().unwrap()).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let writes = watch::Sender::default();
        let mut announced = writes.subscribe();
        let disk = DiskSync::instead_of_each_commit(&database, &folder.path().join("data.db")).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let serving = tokio::spawn(serve(
            listener,
            Served { database, writes, disk, descriptions: Arc::default(), write_lock: write_lock(folder.path()) },
            stopped.shared(),
        ));
        let head = "POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: DynamoDB_20120810.PutItem\r\ncontent-length: 2";
        client.write_all(format!("{head}\r\n\r\n{{}}").as_bytes()).await.unwrap();
        drop(client);
        tokio::time::timeout(Duration::from_secs(30), announced.changed()).await.unwrap().unwrap();
        // The folder must outlive the wait for the disk, which ends the process when the log is missing.
        drop(stop);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_kept_description_is_given_until_a_table_may_have_changed() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::new(folder.path().join("data.db").to_str().unwrap()).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let disk = DiskSync::instead_of_each_commit(&database, &folder.path().join("data.db")).unwrap();
        let descriptions = Arc::new(Descriptions::default());
        let (writes, write_lock) = (watch::Sender::default(), write_lock(folder.path()));
        let served = Served { database, writes, disk, descriptions: descriptions.clone(), write_lock };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, served, async move { drop(stopped.await) }.shared()));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut ask = async |operation: &str, body: &'static str| {
            let request =
                Request::post("/").header(HOST, "localhost").header(TARGET, format!("DynamoDB_20120810.{operation}"));
            let request =
                request.header(CONTENT_TYPE, "application/x-amz-json-1.0").body(Full::<Bytes>::from(body)).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            (answer.status(), answer.into_body().collect().await.unwrap().to_bytes())
        };
        let (asked, kept) = (r#"{"TableName": "comments"}"#, r#"{"Table": {"TableStatus": "ACTIVE"}}"#);
        let answer = Answer { status: StatusCode::OK, headers: HeaderMap::new(), body: kept.into() };
        let began = Instant::now();
        descriptions.keep(asked.into(), &answer, descriptions.changes(), [began, began + Duration::from_secs(60)]);
        for other in ["ListTables", "PutItem"] {
            ask(other, "{}").await;
            assert_eq!(ask("DescribeTable", asked).await, (StatusCode::OK, kept.into()), "{other}");
        }
        // Refused or not: the table may have changed. So the engine is asked, and it refuses.
        ask("UpdateTable", "{}").await;
        assert_eq!(ask("DescribeTable", asked).await.0, StatusCode::BAD_REQUEST);
        drop((sender, stop));
        serving.await.unwrap();
        connection.await.unwrap().unwrap();
    }

    #[test]
    fn an_operation_that_is_not_known_to_read_may_write() {
        let may_write = |target: &'static str| {
            may_write(&[(TARGET.parse().unwrap(), HeaderValue::from_static(target))].into_iter().collect())
        };
        for writing in
            ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "ExecuteStatement", "New"]
        {
            assert!(may_write(format!("DynamoDB_20120810.{writing}").leak()), "{writing}");
        }
        for reading in ["GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems", "DescribeTable", "ListTables"] {
            assert!(!may_write(format!("DynamoDB_20120810.{reading}").leak()), "{reading}");
        }
        for reading in ["GetRecords", "GetShardIterator", "DescribeStream"] {
            assert!(!may_write(format!("DynamoDBStreams_20120810.{reading}").leak()), "{reading}");
        }
        assert!(!super::may_write(&HeaderMap::new()), "the engine answers a health check");
    }

    #[test]
    fn only_items_can_be_written_without_changing_a_table() {
        let may_change = |operation: &str| {
            let target = HeaderValue::from_str(&format!("DynamoDB_20120810.{operation}")).unwrap();
            may_change_tables(&[(TARGET.parse().unwrap(), target)].into_iter().collect())
        };
        for changing in ["CreateTable", "UpdateTable", "DeleteTable", "UpdateTimeToLive", "TagResource", "New"] {
            assert!(may_change(changing), "{changing}");
        }
        for other in ["DescribeTable", "Query"].into_iter().chain(ITEM_WRITES) {
            assert!(!may_change(other), "{other}");
        }
    }

    #[test]
    fn a_host_is_expected_when_it_cannot_be_rebound() {
        let expected = |host: &str| is_expected(&HeaderValue::from_str(host).unwrap());
        for host in ["127.0.0.1", "127.0.0.1:8000", "localhost:9", "LocalHost", "[::1]:8000", "[::1]", "192.0.2.7:80"] {
            assert!(expected(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a b",
            "127.1",
        ] {
            assert!(!expected(host), "{host}");
        }
    }
}
