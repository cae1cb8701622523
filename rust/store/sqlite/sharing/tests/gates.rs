//! The gate keeps newcomers out while a fork is pending, and nobody waits for himself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::super::gate::{enter, fork_pending, reopen_in_parent, shut_within};
use super::isolated;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_thread_inside_may_enter_again_while_a_fork_is_pending() {
    isolated(module_path!(), "a_thread_inside_may_enter_again_while_a_fork_is_pending", || {
        let (tell, told) = channel();
        let inside = thread::spawn(move || {
            let _outer = enter();
            tell.send(()).expect("send");
            while !fork_pending() {
                thread::yield_now();
            }
            for _ in 0..3 {
                drop((enter(), enter()));
            }
        });
        told.recv().expect("inside");
        assert!(shut_within(LONG), "the thread came out");
        let entered = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _gate = enter();
                entered.store(true, Ordering::SeqCst);
            });
            thread::sleep(Duration::from_millis(50));
            assert!(!entered.load(Ordering::SeqCst), "a newcomer waits");
            reopen_in_parent();
        });
        assert!(entered.load(Ordering::SeqCst));
        inside.join().expect("join");
    });
}

#[test]
fn two_threads_inside_may_both_fork() {
    isolated(module_path!(), "two_threads_inside_may_both_fork", || {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _gate = enter();
                        assert!(shut_within(LONG));
                        reopen_in_parent();
                    }
                });
            }
        });
        assert!(shut_within(LONG), "all are counted out again");
        reopen_in_parent();
    });
}

#[test]
fn a_fork_does_not_wait_for_ever() {
    isolated(module_path!(), "a_fork_does_not_wait_for_ever", || {
        let (tell, told) = channel();
        let (release, released) = channel::<()>();
        let inside = thread::spawn(move || {
            let _gate = enter();
            tell.send(()).expect("send");
            released.recv().expect("release");
        });
        told.recv().expect("inside");
        let start = Instant::now();
        assert!(!shut_within(Duration::from_millis(100)), "says that it gave up");
        assert!(start.elapsed() < Duration::from_secs(10));
        reopen_in_parent();
        release.send(()).expect("release");
        inside.join().expect("join");
        assert!(shut_within(LONG));
        reopen_in_parent();
    });
}
