use std::sync::{Mutex, mpsc};

use super::*;

fn socket() -> MetricsSocket {
    MetricsSocket::bind(&"127.0.0.1:0".parse().unwrap()).unwrap()
}

fn ask(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // It may have been evicted before it sent anything.
    let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
    stream
}

/// Number of threads that serve callers in this process.
fn caller_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread that ends in the meantime has no name any more.
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == CALLER_THREAD).count()
}

/// The only test that counts the threads of this process.
#[test]
fn callers_that_wait_for_a_page_are_bounded() {
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let collect = move |_| {
        let _ = held.lock().unwrap().recv();
        Ok("a 1\n# EOF\n".to_owned())
    };
    let server = socket().serve_pages(Box::new(collect)).unwrap();
    let mut streams: Vec<TcpStream> = (0..100).map(|_| ask(server.local())).collect();
    let last = streams.split_off(100 - CALLERS_MAX);
    for mut stream in streams {
        let mut answer = Vec::new();
        // The end, or a reset if its request was not read.
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "it gave way");
    }
    // A thread leaves the list a moment after it was joined; one that hangs never does.
    let deadline = Instant::now() + Duration::from_secs(60);
    while caller_threads() > CALLERS_MAX {
        assert!(Instant::now() < deadline, "{} threads", caller_threads());
        std::thread::yield_now();
    }
    // As many pages as may be requested.
    (0..100).for_each(|_| release.send(()).unwrap());
    for mut stream in last {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("a 1\n"), "{answer}");
    }
    drop(release);
    drop(server);
}
