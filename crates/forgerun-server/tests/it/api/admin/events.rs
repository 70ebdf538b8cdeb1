//! The stream of everything.

use super::super::server::Client;
use super::super::sse::reader::{Opening, Stream};
use super::{TOKEN, server};

async fn opened(opening: Opening) -> Stream {
    opening.open().await.unwrap_or_else(|answer| panic!("no stream but {answer:?}"))
}

#[tokio::test]
async fn the_operator_hears_of_all_jobs_and_goes_on_where_the_stream_broke() {
    let server = server().await;
    let (one, other) = (server.client().await, server.client().await);
    let operator = Client { key: TOKEN.into(), ..one.clone() };
    let mut stream = opened(Opening::new(&operator, "/admin/v1/events")).await;
    let (first, second) = (one.job().await, other.job().await);
    let heard = stream.take(4).await;
    let of = |n: usize| heard[n].json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!((of(0), of(1), of(2), of(3)), (first.clone(), first, second.clone(), second));
    drop(stream);
    let third = other.job().await;
    let mut again = opened(Opening::new(&operator, "/admin/v1/events").after(&heard[2].id)).await;
    let rest = again.take(3).await;
    assert_eq!(rest[0].id, heard[3].id);
    assert_eq!(rest[2].json()["job_id"], third);
    let refused = Opening::new(&one, "/admin/v1/events").open().await;
    assert_eq!(refused.err().map(|answer| answer.status), Some(403));
}
