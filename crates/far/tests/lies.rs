//! The client against servers that agree on everything and then break each connection: what waits
//! for them ends within the time that the name grants, and they are not asked without a pause.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{DeviceSource as _, ErrorKind, WriteDeviceRef, read_one};
use far::AnyDevices;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SIZE: u64 = 16 << 20;
/// Where what some of them do not like to be read begins.
const FAR: u64 = SIZE / 2;
/// What the names grant: far longer than an answer takes on a busy machine.
const TIME: Duration = Duration::from_secs(5);

/// What a server does that it should not. Everything else it answers: all of it reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    ClosesAtWrites,
    ClosesAtFlushes,
    ClosesAtFarReads,
    AnswersWritesWithNonsense,
    ClosesWithinFarReads,
}

/// A server on a socket, as long as the folder is there.
struct Liar {
    folder: tempfile::TempDir,
    connections: Arc<AtomicUsize>,
}

impl Liar {
    fn new(lie: Lie) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Relaxed);
                std::thread::spawn(move || {
                    // The end of a connection is what this is about.
                    let _ = serve(stream, lie);
                });
            }
        });
        Self { folder, connections }
    }

    fn claim(&self) -> WriteDeviceRef {
        let socket = self.folder.path().join("s");
        let name = format!("nbd+unix:///?socket={}&timeout={}", socket.display(), TIME.as_secs());
        let name = PathBuf::from(name);
        AnyDevices::default().claim(&name).unwrap()
    }
}

fn take<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The longest that a server here is told at once.
fn skip(stream: &mut UnixStream, len: u32) -> io::Result<()> {
    assert!(u64::from(len) <= SIZE);
    stream.read_exact(&mut vec![0; len as usize])
}

/// Knows `NBD_OPT_GO` only.
fn agree(stream: &mut UnixStream) -> io::Result<()> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    take::<4>(stream)?;
    loop {
        take::<8>(stream)?;
        let option = take::<4>(stream)?;
        let len = u32::from_be_bytes(take(stream)?);
        skip(stream, len)?;
        let mut reply = |kind: u32, data: &[u8]| {
            let head = 0x0003_e889_0455_65a9_u64.to_be_bytes();
            let len = (data.len() as u32).to_be_bytes();
            stream.write_all(&[&head[..], &option, &kind.to_be_bytes(), &len, data].concat())
        };
        if u32::from_be_bytes(option) != 7 {
            reply(0x8000_0001, &[])?;
            continue;
        }
        // It has flags, and can flush.
        reply(3, &[&[0, 0][..], &SIZE.to_be_bytes(), &[0, 5]].concat())?;
        return reply(1, &[]);
    }
}

fn serve(mut stream: UnixStream, lie: Lie) -> io::Result<()> {
    agree(&mut stream)?;
    loop {
        let request: [u8; 28] = take(&mut stream)?;
        let command = u16::from_be_bytes(request[6..8].try_into().unwrap());
        let offset = u64::from_be_bytes(request[16..24].try_into().unwrap());
        let len = u32::from_be_bytes(request[24..].try_into().unwrap());
        let head = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &request[8..16]].concat();
        let is_far = offset >= FAR;
        match (command, lie) {
            (0, Lie::ClosesAtFarReads) if is_far => return Ok(()),
            (0, Lie::ClosesWithinFarReads) if is_far => {
                stream.write_all(&head)?;
                return stream.write_all(&vec![0; len as usize / 2]);
            }
            (0, _) => stream.write_all(&[&head[..], &vec![0; len as usize]].concat())?,
            (1, Lie::ClosesAtWrites) | (2, _) | (3, Lie::ClosesAtFlushes) => return Ok(()),
            (1, Lie::AnswersWritesWithNonsense) => {
                skip(&mut stream, len)?;
                stream.write_all(&[0x5a; 16])?;
            }
            (1, _) => {
                skip(&mut stream, len)?;
                stream.write_all(&head)?;
            }
            _ => stream.write_all(&head)?,
        }
    }
}

/// What was asked for ends, and not with hundreds of connections in each second.
fn ends(lie: Lie, ask: impl FnOnce(&WriteDeviceRef) -> Result<(), device::Error>) {
    let server = Liar::new(lie);
    let device = server.claim();
    let (began, before) = (Instant::now(), server.connections.load(Relaxed));
    let failed = ask(&device).unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Gone, "{lie:?}");
    // After 50 ms, 100, 200 and so on up to a second, until the time is over that the name grants.
    let tries = server.connections.load(Relaxed) - before;
    assert!((2..=14).contains(&tries), "{lie:?}: {tries} in {:?}", began.elapsed());
    assert!(began.elapsed() >= TIME * 9 / 10, "{lie:?}: {:?}", began.elapsed());
    // It is dead for good: nothing more waits.
    assert_eq!(device.write(0, &[1; 512]).unwrap_err().kind, ErrorKind::Gone);
}

fn read(device: &WriteDeviceRef, offset: u64) -> Result<(), device::Error> {
    read_one(&*device.clone().as_device(), offset, 4096).map(drop)
}

/// All of them wait at the same time.
#[test]
fn servers_that_break_connections_are_gone_in_time() {
    let writes = |device: &WriteDeviceRef| device.write(0, &[1; 4096]);
    // Each new connection has the write sent again, and answered.
    let flushes = |device: &WriteDeviceRef| {
        device.write(FAR, &[1; 4096])?;
        device.flush()
    };
    let reads = |device: &WriteDeviceRef| read(device, FAR);
    std::thread::scope(|scope| {
        scope.spawn(|| ends(Lie::ClosesAtWrites, writes));
        scope.spawn(|| ends(Lie::AnswersWritesWithNonsense, writes));
        scope.spawn(|| ends(Lie::ClosesAtFlushes, flushes));
        scope.spawn(|| ends(Lie::ClosesAtFarReads, reads));
        scope.spawn(|| ends(Lie::ClosesWithinFarReads, reads));
    });
}

/// Other requests are answered in the meantime, which does not count for the one that is not.
#[test]
fn a_request_that_is_never_answered_does_not_wait_for_the_others() {
    let server = Liar::new(Lie::ClosesAtFarReads);
    let device = server.claim();
    let writing = {
        let device = device.clone();
        std::thread::spawn(move || (0..).find_map(|_| device.write(0, &[1; 4096]).err()).unwrap())
    };
    assert_eq!(read(&device, FAR).unwrap_err().kind, ErrorKind::Gone);
    assert_eq!(writing.join().unwrap().kind, ErrorKind::Gone);
}
