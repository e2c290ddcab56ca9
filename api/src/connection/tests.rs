//! Phases and their deadlines as data, and back-pressure on a real socket.

use std::future::poll_fn;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

const DEADLINES: Deadlines = {
    let hour = Duration::from_secs(3_600);
    Deadlines { head: hour, request: hour, unread: hour, keep_alive: hour }
};

fn progress() -> Progress {
    Progress::new(DEADLINES, Places::new(1_000).take())
}

#[test]
fn every_head_is_counted_from_its_first_byte_and_no_body_is() {
    let progress = progress();
    assert!(progress.read(HEAD_MAX_BYTES), "the first head");
    for _ in 0..3 {
        progress.handling(false);
        assert!(progress.read(10 * HEAD_MAX_BYTES), "a body");
        progress.sending();
        progress.flushed();
        assert_eq!(progress.phase.get(), Phase::Sending, "a part of the answer is taken");
        progress.answer_is_whole.set(true);
        progress.flushed();
        assert_eq!(progress.phase.get(), Phase::Idle);
        assert!(progress.read(0));
        assert_eq!(progress.phase.get(), Phase::Idle, "the client sends no more");
        assert!(progress.read(1) && progress.read(HEAD_MAX_BYTES - 1), "a further head");
        assert_eq!(progress.phase.get(), Phase::Receiving);
    }
    assert!(!progress.read(1));
}

#[test]
fn the_rest_of_a_body_is_no_head() {
    let progress = progress();
    progress.handling(true);
    progress.sending();
    progress.answer_is_whole.set(true);
    progress.flushed();
    assert!(progress.read(1) && progress.read(10 * HEAD_MAX_BYTES));
    assert_eq!(progress.phase.get(), Phase::Receiving, "but it has the deadline of one");
    progress.handling(false);
    progress.sending();
    progress.answer_is_whole.set(true);
    progress.flushed();
    assert!(progress.read(1) && !progress.read(HEAD_MAX_BYTES));
}

#[test]
fn only_enough_of_an_answer_puts_its_deadline_off() {
    let progress = progress();
    progress.sending();
    let passed = Instant::now();
    progress.deadline.set(passed);
    progress.taken(TAKEN_BYTES_MIN - 1);
    assert_eq!(progress.deadline.get(), passed);
    progress.taken(1);
    assert!(progress.deadline.get() > passed);
    progress.deadline.set(passed);
    progress.taken(TAKEN_BYTES_MIN - 1);
    assert_eq!(progress.deadline.get(), passed, "it is counted anew");
}

#[test]
fn idle_connections_are_kept_for_a_shorter_time_when_places_are_scarce() {
    let places = Places::new(4);
    let idle = |place: Place| {
        let progress = Progress::new(DEADLINES, place);
        progress.sending();
        progress.answer_is_whole.set(true);
        progress.flushed();
        progress.deadline.get() - Instant::now() <= SCARCE_KEEP_ALIVE + GRACE
    };
    let mut taken = vec![places.take(), places.take()];
    assert!(!idle(places.take()), "three of four");
    taken.push(places.take());
    assert!(idle(places.take()), "four of four");
    drop(taken);
    assert!(!idle(places.take()));
}

#[tokio::test]
async fn while_an_answer_is_not_taken_nothing_more_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (io, _) = listener.accept().await.unwrap();
    let mut stream = TimedStream::new(io, DEADLINES, &Places::new(1));
    let part = [7; 1024];
    let mut written = 0;
    while let Poll::Ready(bytes) =
        poll_fn(|context| Poll::Ready(Pin::new(&mut stream).poll_write(context, &part))).await
    {
        written += bytes.unwrap();
    }
    client.write_all(b"more").await.unwrap();
    stream.io.readable().await.unwrap();
    let mut buffer = [0; 16];
    let mut buffer = ReadBuf::new(&mut buffer);
    let read = poll_fn(|context| Poll::Ready(Pin::new(&mut stream).poll_read(context, &mut buffer))).await;
    assert!(read.is_pending() && buffer.filled().is_empty(), "{:?}", buffer.filled());

    let taken = tokio::spawn(async move {
        let mut all = vec![0; written + part.len()];
        client.read_exact(&mut all).await.unwrap();
        client
    });
    stream.write_all(&part).await.unwrap();
    let mut more = [0; 4];
    stream.read_exact(&mut more).await.unwrap();
    assert_eq!(&more, b"more");
    taken.await.unwrap();
}
