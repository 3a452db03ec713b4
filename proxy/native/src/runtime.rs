//! The thread that runs all native tasks of this process, off the interpreter's lock.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::runtime::{Builder, Handle};

static RUNTIME: OnceLock<Handle> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// Returns the runtime, and starts its thread at the first call.
pub fn handle() -> std::io::Result<&'static Handle> {
    let _one = locked(&STARTING);
    if let Some(running) = RUNTIME.get() {
        return Ok(running);
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let running = runtime.handle().clone();
    std::thread::Builder::new()
        .name("towline-native".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(RUNTIME.get_or_init(|| running))
}

/// Locks a mutex; a panic of another holder leaves its data usable.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
