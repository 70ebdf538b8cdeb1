//! Several statements sent one behind the other on one connection, without waiting for each answer: a stage of a
//! transaction costs one trip to the server, however many statements it has.
//!
//! Inside a transaction a failed statement makes the server refuse all that follow it, the commit included. So the first
//! error is the one that counts, and the others only repeat it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Error as PgError, Row};

use super::connect::Connection;
use super::sql::Sql;

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, PgError>> + Send + 'a>>;

/// Statements on their way. Answers come back in the order of the calls.
pub(super) struct Pipeline<'a> {
    connection: &'a Connection,
    answers: Vec<Answer<'a>>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(connection: &'a Connection) -> Pipeline<'a> {
        Pipeline { connection, answers: Vec::with_capacity(16) }
    }

    /// Adds a statement. It leaves when the pipeline runs.
    pub(super) fn push<const N: usize>(&mut self, sql: Sql, values: [&'a (dyn ToSql + Sync); N]) {
        let connection = self.connection;
        self.answers.push(Box::pin(async move { connection.query(sql, &values).await }));
    }

    /// How many statements were added.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Sends everything, then waits for everything. Cancelled in between, statements may have been run or not: the
    /// connection must not be used again.
    pub(super) async fn run(self) -> Vec<Result<Vec<Row>, PgError>> {
        in_order(self.answers).await
    }
}

/// Waits for several requests on one connection. The driver sends a request when it is first polled, so the first round, in
/// order, sends them all. The server answers in that order too: after that it is enough to look at the first that is
/// not done.
pub(super) async fn in_order<F: Future + Unpin>(mut requests: Vec<F>) -> Vec<F::Output> {
    let mut answers: Vec<Option<F::Output>> = requests.iter().map(|_| None).collect();
    let mut sent = false;
    poll_fn(|context| {
        let mut all = true;
        for (request, answer) in requests.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none())
        {
            match Pin::new(request).poll(context) {
                Poll::Ready(output) => *answer = Some(output),
                Poll::Pending if sent => return Poll::Pending,
                Poll::Pending => all = false,
            }
        }
        sent = true;
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}
