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
        progress.flushed(false);
        assert_eq!(progress.phase.get(), Phase::Sending, "a part of the answer is taken");
        progress.answer_is_whole.set(true);
        progress.flushed(false);
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
    progress.flushed(false);
    assert!(progress.read(1) && progress.read(10 * HEAD_MAX_BYTES));
    assert_eq!(progress.phase.get(), Phase::Receiving, "but it has the deadline of one");
    progress.handling(false);
    progress.sending();
    progress.answer_is_whole.set(true);
    progress.flushed(false);
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
fn answers_to_requests_sent_ahead_share_one_deadline() {
    let progress = progress();
    progress.handling(false);
    progress.sending();
    let passed = Instant::now();
    progress.deadline.set(passed);
    for _ in 0..3 {
        progress.answer_is_whole.set(true);
        progress.handling(false);
        progress.sending();
    }
    assert_eq!(progress.deadline.get(), passed, "the first answer is not taken");
    progress.handling(false);
    progress.flushed(false);
    assert!(progress.deadline.get() > passed, "only the request that is being handled is left");
}

#[test]
fn nothing_is_read_ahead_but_a_body_that_has_a_reader() {
    let progress = progress();
    assert!(progress.may_read());
    progress.handling(true);
    assert!(!progress.may_read(), "nobody reads the body yet");
    progress.body_begins();
    assert!(progress.may_read());
    progress.body_ended();
    assert!(!progress.may_read());
    progress.sending();
    assert!(!progress.may_read());
    progress.answer_is_whole.set(true);
    progress.flushed(false);
    assert!(progress.may_read());
}

#[test]
fn after_the_last_answer_a_connection_keeps_its_place_for_moments_only() {
    let progress = progress();
    progress.handling(true);
    progress.sending();
    progress.answer_is_whole.set(true);
    progress.flushed(true);
    assert!(progress.deadline.get() - Instant::now() <= LINGER + GRACE);
}

#[test]
fn idle_connections_are_kept_for_a_shorter_time_when_places_are_scarce() {
    let places = Places::new(4);
    let idle = |place: Place| {
        let progress = Progress::new(DEADLINES, place);
        progress.sending();
        progress.answer_is_whole.set(true);
        progress.flushed(false);
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
    let progress = stream.progress();
    progress.handling(false);
    progress.sending();
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
    progress.answer_is_whole.set(true);
    stream.flush().await.unwrap();
    let mut more = [0; 4];
    stream.read_exact(&mut more).await.unwrap();
    assert_eq!(&more, b"more");
    taken.await.unwrap();
}
