//! The thread of a link: it reads packets from the devices at both ends and writes each to the
//! other end when it is due.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_lab::{Link, Pipe};
use lustrine_sys::{Interest, Poller, Tun};

use crate::control::DirectionStatus;

/// Packets taken from one device before the other one is read.
const BATCH: usize = 32;

/// How old the published counters may be while packets flow.
const PUBLISH: Duration = Duration::from_millis(5);

/// The priority of links, as nice(1) counts.
pub(crate) const NICE: i32 = -15;

/// The rest while there is no memory for packets and none is due.
const IDLE_WAIT: Duration = Duration::from_micros(100);

/// What a link shows of itself.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) directions: [DirectionStatus; 2],
    pub(crate) failure: Option<String>,
}

/// Shared between the thread of a link and the daemon.
pub(crate) type Window = Arc<Mutex<Shown>>;

/// Looks at what a link shows.
pub(crate) fn look(window: &Window) -> MutexGuard<'_, Shown> {
    window.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a link between two devices; it runs until the process ends.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn start(link: &Link, seeds: [u64; 2], devices: [Tun; 2]) -> io::Result<Window> {
    let window = Window::default();
    let (shown, link) = (Arc::clone(&window), link.clone());
    thread::Builder::new().name("link".to_owned()).spawn(move || {
        let ended = Carrier::new(&link, seeds, devices, &shown).and_then(|mut link| link.run());
        if let Err(error) = ended {
            look(&shown).failure = Some(error.to_string());
        }
    })?;
    Ok(window)
}

struct Carrier<'w> {
    /// From the first device to the second, and back.
    pipes: [Pipe; 2],
    devices: [Tun; 2],
    refused: [u64; 2],
    poller: Poller,
    begin: Instant,
    window: &'w Window,
    published: Instant,
}

impl Carrier<'_> {
    fn new<'w>(
        link: &Link,
        seeds: [u64; 2],
        devices: [Tun; 2],
        window: &'w Window,
    ) -> io::Result<Carrier<'w>> {
        lustrine_sys::thread::minimize_timer_slack()?;
        // Punctual beside busy programs, as a kernel's queue would be. Only root may do so.
        let _ = rustix::process::setpriority_process(None, NICE);
        // Older kernels do not know it, and are only less punctual.
        let _ = lustrine_sys::thread::ask_for_short_slices();
        let poller = Poller::new(2)?;
        for (device, token) in devices.iter().zip(0..) {
            poller.add(device, token, Interest::Readable)?;
        }
        let [forward, back] = link.directions;
        let pipes = [Pipe::new(forward, seeds[0]), Pipe::new(back, seeds[1])];
        let begin = Instant::now();
        Ok(Carrier { pipes, devices, refused: [0; 2], poller, begin, window, published: begin })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).expect("less than 500 years")
    }

    fn run(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        // Something was carried since the counters were published.
        let mut changed = false;
        loop {
            let mut full = false;
            let mut moved = 0;
            for side in 0..2 {
                moved += self.hand_over(side);
                match self.take(side)? {
                    Some(count) => moved += count,
                    None => full = true,
                }
                moved += self.hand_over(side);
            }
            changed |= moved > 0;
            if changed && self.published.elapsed() >= PUBLISH {
                self.publish();
                changed = false;
            }
            if moved > 0 {
                continue;
            }
            let due = self.pipes.iter().filter_map(Pipe::next_due).min();
            let wait = due.map(|due| Duration::from_nanos(due.saturating_sub(self.now())));
            if full {
                // The devices have packets that nobody can take: waiting for them would not wait.
                thread::sleep(wait.unwrap_or(IDLE_WAIT).min(IDLE_WAIT));
                continue;
            }
            let soon = changed.then_some(PUBLISH);
            let wait = [wait, soon].into_iter().flatten().min();
            self.poller.wait(wait, &mut ready)?;
        }
    }

    /// Reads packets from a device. `None` if there was no memory for them.
    fn take(&mut self, side: usize) -> io::Result<Option<usize>> {
        for count in 0..BATCH {
            let now = self.now();
            let pipe = &mut self.pipes[side];
            let Some(room) = pipe.room() else { return Ok(None) };
            match self.devices[side].read(room)? {
                Some(len) => pipe.send(len, now),
                None => return Ok(Some(count)),
            }
        }
        Ok(Some(BATCH))
    }

    /// Writes the packets that are due.
    fn hand_over(&mut self, side: usize) -> usize {
        for count in 0..BATCH {
            let now = self.now();
            let pipe = &mut self.pipes[side];
            let Some(packet) = pipe.arrived(now) else { return count };
            if self.devices[1 - side].write(packet.headers, packet.rest).is_err() {
                self.refused[side] += 1;
            }
            pipe.delivered(now);
        }
        BATCH
    }

    fn publish(&mut self) {
        let mut shown = look(self.window);
        for (side, direction) in shown.directions.iter_mut().enumerate() {
            *direction = DirectionStatus {
                counters: self.pipes[side].counters(),
                refused: self.refused[side],
                late: self.pipes[side].lateness(),
            };
        }
        drop(shown);
        self.published = Instant::now();
    }
}
