//! Unix sockets and TCP over loopback, both polled without ever blocking.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use crate::peer::{Answer, Ask, Expected, Failure, Job, Numbered, Peer, Trips, patiently};
use crate::sys::Board;

/// A Unix stream socket with an abstract name.
pub const UNIX: Peer = Peer { name: "unix_socket", answer: answer::<UnixListener>, ask: ask::<UnixListener> };
/// TCP over loopback, without Nagle's delay.
pub const TCP: Peer = Peer { name: "tcp_loopback", answer: answer::<TcpListener>, ask: ask::<TcpListener> };

/// A kind of socket. None of them blocks.
trait Listen: Sized + 'static {
    type Stream: Read + Write + 'static;
    fn listen(tag: &str) -> Result<Self, Failure>;
    fn accept(&self) -> Result<Option<Self::Stream>, Failure>;
    fn connect(tag: &str) -> Result<Self::Stream, Failure>;
}

impl Listen for UnixListener {
    type Stream = UnixStream;

    fn listen(tag: &str) -> Result<Self, Failure> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(tag)?)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    fn accept(&self) -> Result<Option<UnixStream>, Failure> {
        let Some((stream, _)) = ready(self.accept())? else { return Ok(None) };
        stream.set_nonblocking(true)?;
        Ok(Some(stream))
    }

    fn connect(tag: &str) -> Result<UnixStream, Failure> {
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(tag)?)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    /// The kernel chooses the port; a Unix socket tells it.
    fn listen(tag: &str) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let (port, teller) = (listener.local_addr()?.port(), UnixListener::listen(tag)?);
        teller.set_nonblocking(false)?;
        std::thread::spawn(move || -> std::io::Result<()> { teller.accept()?.0.write_all(&port.to_le_bytes()) });
        Ok(listener)
    }

    fn accept(&self) -> Result<Option<TcpStream>, Failure> {
        let Some((stream, _)) = ready(self.accept())? else { return Ok(None) };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Some(stream))
    }

    fn connect(tag: &str) -> Result<TcpStream, Failure> {
        let mut port = [0; 2];
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(tag)?)?.read_exact(&mut port)?;
        let stream = TcpStream::connect(("127.0.0.1", u16::from_le_bytes(port)))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

fn ready<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn answer<L: Listen>(job: &Job) -> Result<Box<dyn Answer>, Failure> {
    let listener = L::listen(&job.tag)?;
    let (board, message) = (job.board, vec![0; job.bytes]);
    Ok(Box::new(Answering { board, listener, stream: None, message, expected: Expected::default() }))
}

fn ask<L: Listen>(job: &Job) -> Result<Box<dyn Ask>, Failure> {
    let (board, stream) = (job.board, L::connect(&job.tag)?);
    Ok(Box::new(Asking { board, stream, message: Numbered::new(job.bytes), reply: vec![0; job.bytes] }))
}

struct Asking<S> {
    board: &'static Board,
    stream: S,
    message: Numbered,
    reply: Vec<u8>,
}

struct Answering<L: Listen> {
    board: &'static Board,
    listener: L,
    stream: Option<L::Stream>,
    message: Vec<u8>,
    expected: Expected,
}

impl<S: Read + Write> Ask for Asking<S> {
    fn trips(&mut self, trips: &mut Trips) {
        loop {
            put(&mut self.stream, self.message.next());
            assert!(get(&mut self.stream, &mut self.reply, || false), "nobody stops it");
            self.message.check(&self.reply);
            if !trips.came() {
                return;
            }
        }
    }

    fn stream(&mut self, times: u64, target: u64) {
        for _ in 0..times {
            put(&mut self.stream, self.message.next());
        }
        while self.board.taken.get() != target {}
    }
}

impl<L: Listen> Answer for Answering<L> {
    fn accept(&mut self) -> Result<(), Failure> {
        self.stream = Some(patiently("the connection", || self.listener.accept())?);
        Ok(())
    }

    fn echo(&mut self, window: u64) {
        let stream = self.stream.as_mut().expect("it was accepted");
        while get(stream, &mut self.message, || self.board.over.get() == window) {
            put(stream, &self.message);
        }
    }

    fn drain(&mut self, times: u64) {
        let stream = self.stream.as_mut().expect("it was accepted");
        for _ in 0..times {
            assert!(get(stream, &mut self.message, || false), "nobody stops it");
            self.expected.look(&self.message);
        }
    }
}

fn put(stream: &mut impl Write, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        if let Some(written) = ready(stream.write(bytes)).expect("the other side is there") {
            bytes = &bytes[written..];
        }
    }
}

/// Fills `message`; `false` if `stop` said so while none of it had come.
fn get(stream: &mut impl Read, message: &mut [u8], stop: impl Fn() -> bool) -> bool {
    let mut have = 0;
    while have < message.len() {
        match ready(stream.read(&mut message[have..])).expect("the other side is there") {
            Some(0) => panic!("the other side is gone"),
            Some(more) => have += more,
            None if have == 0 && stop() => return false,
            None => {}
        }
    }
    true
}
