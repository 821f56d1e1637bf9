//! The descriptor that librdkafka signals: one non-blocking pipe per poller, shared by all of its queues. A queue that
//! turns from empty to non-empty writes its 8-byte token. So one read returns *which* queues have work, and no client
//! needs a descriptor. librdkafka writes at most one token per queue until the queue is served again, and our own
//! wake-ups are as rare. So the pipe (1 MiB if the system grants it) cannot fill.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Names a queue of a client: (client, queue).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub client: u32,
    pub queue: u32,
}

impl Token {
    pub fn to_bytes(self) -> [u8; 8] {
        ((u64::from(self.client) << 32) | u64::from(self.queue)).to_ne_bytes()
    }

    fn from_bytes(bytes: [u8; 8]) -> Self {
        let word = u64::from_ne_bytes(bytes);
        Self { client: (word >> 32) as u32, queue: word as u32 }
    }
}

pub struct Wakeup {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Wakeup {
    pub fn new() -> io::Result<Self> {
        let mut fds = [0; 2];
        // SAFETY: `fds` has room for the two descriptors that pipe fills in.
        if unsafe { libc::pipe(fds.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for fd in fds {
            // SAFETY: plain fcntl calls on descriptors that we just opened.
            unsafe {
                libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK);
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        #[cfg(target_os = "linux")]
        // SAFETY: a refused size only leaves the default one (64 KiB, 8,192 tokens).
        unsafe {
            libc::fcntl(fds[1], libc::F_SETPIPE_SZ, 1 << 20);
        }
        // SAFETY: both descriptors are open and owned by no other code.
        unsafe { Ok(Self { reader: OwnedFd::from_raw_fd(fds[0]), writer: OwnedFd::from_raw_fd(fds[1]) }) }
    }

    pub fn descriptor(&self) -> RawFd {
        self.writer.as_raw_fd()
    }

    pub fn signal(&self, token: Token) {
        let bytes = token.to_bytes();
        // SAFETY: writes 8 bytes of a live array; shorter than PIPE_BUF, hence atomic. Fails only when the pipe is
        // full.
        unsafe { libc::write(self.writer.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Waits until a token arrives or `timeout` is over, then empties the pipe. The pipe is emptied before the queues
    /// are drained, so a later signal is seen in the next round. An error means that the pipe is broken: the next call
    /// returns one too, at once.
    pub fn wait(&self, timeout: Duration, tokens: &mut Vec<Token>) -> io::Result<()> {
        let mut polled = [libc::pollfd { fd: self.reader.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        let millis = timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
        // SAFETY: a live array of that length.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, millis) };
        if ready < 0 {
            return harmless(io::Error::last_os_error());
        }
        if ready == 0 {
            return Ok(());
        }
        let mut buffer = [0u8; 8192];
        loop {
            // SAFETY: reads into a live buffer of that length. Writes are whole tokens, so reads are multiples of 8.
            let n = unsafe { libc::read(self.reader.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
            if n < 0 {
                return harmless(io::Error::last_os_error());
            }
            if n == 0 {
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, "its writing end is closed"));
            }
            tokens.extend(buffer[..n as usize].as_chunks::<8>().0.iter().map(|bytes| Token::from_bytes(*bytes)));
            if (n as usize) < buffer.len() {
                return Ok(());
            }
        }
    }
}

/// An interrupted call and an empty pipe are no failures.
fn harmless(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_takes_all_tokens_that_were_signalled() {
        let wakeup = Wakeup::new().expect("a pipe");
        let mut tokens = Vec::new();
        wakeup.wait(Duration::ZERO, &mut tokens).expect("the pipe is whole");
        assert!(tokens.is_empty());
        // More than one read takes.
        let signalled: Vec<_> = (0..3_000).map(|queue| Token { client: u32::MAX - queue, queue }).collect();
        signalled.iter().for_each(|token| wakeup.signal(*token));
        wakeup.wait(Duration::from_secs(60), &mut tokens).expect("the pipe is whole");
        assert_eq!(signalled, tokens);
        tokens.clear();
        wakeup.wait(Duration::from_nanos(1), &mut tokens).expect("the pipe is whole");
        assert!(tokens.is_empty());
    }
}
