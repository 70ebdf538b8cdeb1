//! What a list costs others whose filter few jobs pass: a hundred thousand jobs of one client, most of which have ended, 32 who
//! list those that run, and one who reads a plain page all the while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forgerun_core::state::State;
use forgerun_store::sqlite::Sqlite;
use forgerun_store::{Filter, Store};

use crate::work::{CLIENT, Work, transact};

const JOBS: usize = 100_000;
const BATCH: usize = 1_000;
const LISTERS: usize = 32;
const SPAN: Duration = Duration::from_secs(5);

/// Fills a store in a folder of its own and measures.
pub(crate) fn run() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&folder.path().join("lists.db")).expect("a store"));
        let mut work = Work::new();
        for _ in 0..JOBS / BATCH {
            let submit = work.submit_bulk(BATCH);
            transact(&*store, submit).await;
            let claimed = transact(&*store, work.claim(BATCH)).await;
            let succeed = work.succeed(&claimed);
            transact(&*store, succeed).await;
        }
        println!("| 32 who list at once | their pages/s | another reader: median | 99 % | longest |");
        println!("|---|---|---|---|---|");
        let own = Filter { client: Some(CLIENT), limit: 51, ..Filter::default() };
        let bounded = Filter { look_max: 1_000, ..own.clone() };
        let walks = |filter: &Filter| Filter { job_type: Some("none".into()), ..filter.clone() };
        let running = Filter { states: vec![State::Running], ..bounded.clone() };
        measure("nobody", &store, &own, None).await;
        measure("a filter without an index, unbounded", &store, &own, Some(walks(&own))).await;
        measure("a filter without an index, a thousand rows", &store, &own, Some(walks(&bounded))).await;
        measure("jobs that run", &store, &own, Some(running)).await;
    });
}

async fn measure(title: &str, store: &Arc<dyn Store>, plain: &Filter, listed: Option<Filter>) {
    let over = Arc::new(AtomicBool::new(false));
    let mut listers = tokio::task::JoinSet::new();
    for _ in 0..listed.iter().map(|_| LISTERS).sum() {
        let (store, over, filter) = (store.clone(), over.clone(), listed.clone().unwrap_or_default());
        listers.spawn(async move {
            let mut n_pages = 0_u64;
            while !over.load(Ordering::Relaxed) {
                store.list_jobs(filter.clone()).await.expect("a page");
                n_pages += 1;
            }
            n_pages
        });
    }
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < SPAN {
        let asked = Instant::now();
        store.list_jobs(plain.clone()).await.expect("a page");
        took.push(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    over.store(true, Ordering::Relaxed);
    let n_pages: u64 = listers.join_all().await.into_iter().sum();
    took.sort_unstable();
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
    let rate = n_pages as f64 / began.elapsed().as_secs_f64();
    println!("| {title} | {rate:.0} | {:.2} ms | {:.2} ms | {:.2} ms |", at(50), at(99), at(100));
}
