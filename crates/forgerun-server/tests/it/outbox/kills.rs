//! Forwarder, server and application's database are killed in turn while an application commits: every committed row is one job.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forgerun_store::testing::{Cluster, Durability, free_port};

use super::{Application, ForwarderProcess};
use crate::crash::{Connection, first_key, started};
use crate::process::{Server, forgerun};
use crate::rabbitmq::pause;
use crate::workflow_nodes::all_jobs;

/// Kills of each of the three. `FORGERUN_OUTBOX_KILLS=50` for a long run.
fn n_kills() -> usize {
    std::env::var("FORGERUN_OUTBOX_KILLS").map_or(1, |n| n.parse().expect("a number of kills"))
}

/// Rows that must be committed between two kills.
const N_BETWEEN: usize = 40;

/// Ids of rows that are committed for sure, and of those whose commit broke.
#[derive(Default)]
struct Committed {
    sure: BTreeSet<String>,
    maybe: BTreeSet<String>,
}

fn serve(folder: &tempfile::TempDir, port: u16) -> Server {
    let address = format!("127.0.0.1:{port}");
    let database = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let mut command = forgerun(&["serve", "--listen", &address, "--database-url", &database]);
    command.env("FORGERUN_GRPC__ADDR", "");
    started(command)
}

/// Commits transactions of one to nine rows, until it is told to stop.
async fn commit(url: &str, committed: &Mutex<Committed>, stop: &AtomicBool) {
    let mut n = 0;
    'connection: while !stop.load(Ordering::Relaxed) {
        let Ok((client, driver)) = tokio_postgres::connect(url, tokio_postgres::NoTls).await else {
            tokio::task::yield_now().await;
            continue;
        };
        tokio::spawn(driver);
        while !stop.load(Ordering::Relaxed) {
            n += 1;
            let text = format!(
                "SELECT forgerun.submit('a.b', '[]', '{{\"queue\": \"q\"}}')::text FROM generate_series(1, {})",
                n % 9 + 1
            );
            let begun = client.batch_execute("BEGIN").await.and(client.query(&text, &[]).await);
            let Ok(rows) = begun else { continue 'connection };
            let ids: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let is_sure = client.batch_execute("COMMIT").await.is_ok();
            let mut committed = committed.lock().unwrap();
            if is_sure { committed.sure.extend(ids) } else { committed.maybe.extend(ids) }
        }
    }
}

#[test]
fn no_committed_row_is_lost_or_doubled_whatever_is_killed() {
    let cluster = Cluster::start(Durability::Full);
    let application = Application::new(&cluster);
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let server = serve(&folder, port);
    let key = first_key(server.address);
    let url = super::url(&server);
    let mut forwarder = Some(ForwarderProcess::start(&application.url, &url, &key));
    let mut server = Some(server);
    let (committed, stop) = (Mutex::new(Committed::default()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| application.runtime.block_on(commit(&application.url, &committed, &stop)));
        for n in 0..3 * n_kills() {
            let n_before = committed.lock().unwrap().sure.len();
            while committed.lock().unwrap().sure.len() < n_before + N_BETWEEN {
                pause(Duration::from_millis(5));
            }
            match n % 3 {
                0 => {
                    drop(forwarder.take());
                    forwarder = Some(ForwarderProcess::start(&application.url, &url, &key));
                }
                1 => {
                    let killed = server.take().expect("it runs again after each kill");
                    killed.signal("KILL");
                    drop(killed);
                    server = Some(serve(&folder, port));
                }
                _ => {
                    cluster.kill();
                    cluster.start_again();
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    application.wait_for(|status| status["waiting"] == 0);
    let Committed { sure, maybe } = committed.into_inner().unwrap();
    let address = server.as_ref().expect("it runs again after each kill").address;
    let jobs = all_jobs(&mut Connection::open(address, &key).unwrap());
    let lost: Vec<_> = sure.difference(&jobs).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), sure.len());
    let strange: Vec<_> = jobs.iter().filter(|id| !sure.contains(*id) && !maybe.contains(*id)).collect();
    assert!(strange.is_empty(), "jobs that nobody committed: {strange:?}");
    println!("{} rows committed, {} kills: all are one job each", sure.len(), 3 * n_kills());
}
