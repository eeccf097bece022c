//! The screen and the keyboard.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lustrine_top::{Key, Screen, draw};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::disable_raw_mode;

use super::sampler::Sampler;
use crate::interrupt::Interrupt;
use crate::output::Failure;

/// The wait for a key between two looks at samples and signals.
const LOOK: Duration = Duration::from_millis(100);
/// How long drawing may take after a signal. A terminal that was stopped, as by Ctrl-S, takes
/// nothing.
const GRACE: Duration = Duration::from_secs(1);

/// Gives the terminal back as it was, also after a panic.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // The error cannot be shown: the terminal may be gone.
        let _ = ratatui::try_restore();
    }
}

/// Ends the program after a signal: through the flag, or by itself if the flag is not looked at in
/// time.
fn watch(interrupt: Interrupt) -> Result<Arc<AtomicBool>, Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    let work = move || {
        let failure = loop {
            match interrupt.check() {
                Ok(()) => thread::sleep(LOOK),
                Err(failure) => break failure,
            }
        };
        flag.store(true, Ordering::Relaxed);
        thread::sleep(GRACE);
        // What the terminal does not take cannot be drawn; its modes can be given back.
        let _ = disable_raw_mode();
        std::process::exit(failure.status().into());
    };
    let thread = thread::Builder::new().name("lustrine-top-end".to_owned()).spawn(work);
    thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(ended)
}

/// Blocks SIGWINCH before any thread starts. With that signal crossterm 0.29 loses keys: if it
/// finds the signal and a key at once, it reports the new size, and the key stays where it is until
/// the next one comes. The size is looked at instead.
///
/// # Errors
/// When the system refuses it.
pub(super) fn prepare() -> Result<(), Failure> {
    let blocked = lustrine_sys::signals::block_window_changes();
    blocked.map_err(|error| Failure::Failed(format!("cannot block SIGWINCH: {error}")))
}

/// Draws until the user ends it; [`prepare`] comes first.
///
/// # Errors
/// When the terminal cannot be used, and after a signal.
pub(super) fn run(
    mut screen: Screen,
    sampler: &mut Sampler,
    interrupt: Interrupt,
) -> Result<(), Failure> {
    let ended = watch(interrupt)?;
    let failed = |error: io::Error| Failure::Failed(format!("cannot use the terminal: {error}"));
    // From here on a message of a panic is printed after the terminal was restored.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let _restore = Restore;
    terminal.draw(|frame| draw(frame, &mut screen)).map_err(failed)?;
    let mut size = terminal.size().map_err(failed)?;
    loop {
        if ended.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let mut changed = false;
        if event::poll(LOOK).map_err(failed)? {
            match on_event(&event::read().map_err(failed)?, &mut screen, &mut terminal) {
                Ok(ControlFlow::Break(())) => return Ok(()),
                Ok(ControlFlow::Continue(())) => changed = true,
                Err(error) => return Err(failed(error)),
            }
        }
        let before = std::mem::replace(&mut size, terminal.size().map_err(failed)?);
        // Drawing takes the new size.
        changed |= size != before;
        if sampler.pull() {
            screen.take(sampler.view());
            changed = true;
        }
        if changed {
            terminal.draw(|frame| draw(frame, &mut screen)).map_err(failed)?;
        }
    }
}

fn on_event(
    event: &Event,
    screen: &mut Screen,
    terminal: &mut DefaultTerminal,
) -> io::Result<ControlFlow<()>> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => match meaning(key) {
            Some(key) => Ok(screen.press(key)),
            None if is_control(key, 'l') => terminal.clear().map(|()| ControlFlow::Continue(())),
            None => Ok(ControlFlow::Continue(())),
        },
        _ => Ok(ControlFlow::Continue(())),
    }
}

fn is_control(key: &KeyEvent, character: char) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char(character)
}

/// What a key means here.
fn meaning(key: &KeyEvent) -> Option<Key> {
    if is_control(key, 'c') {
        return Some(Key::Quit);
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return None;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('s') => Some(Key::Sort),
        KeyCode::Char('p' | ' ') => Some(Key::Pause),
        KeyCode::Tab => Some(Key::NextPage),
        KeyCode::Up | KeyCode::Char('k') => Some(Key::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_meaning() {
        let key = |code, modifiers| meaning(&KeyEvent::new(code, modifiers));
        let none = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Char('q'), none), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('s'), none), Some(Key::Sort));
        assert_eq!(key(KeyCode::Char('p'), none), Some(Key::Pause));
        for (code, modifiers) in [
            (KeyCode::Char('c'), none),
            (KeyCode::Char('s'), KeyModifiers::CONTROL),
            (KeyCode::F(5), none),
        ] {
            assert_eq!(key(code, modifiers), None);
        }
    }
}
