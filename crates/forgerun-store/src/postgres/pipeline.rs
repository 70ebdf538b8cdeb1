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

type PendingRows<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, PgError>> + Send + 'a>>;

/// Statements on their way. Answers come back in the order of the calls.
pub(super) struct Pipeline<'a> {
    connection: &'a Connection,
    answers: Vec<PendingRows<'a>>,
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

    /// Adds an answer in the place of a statement.
    #[cfg(test)]
    pub(super) fn push_answer(
        &mut self,
        answer: impl Future<Output = Result<Vec<Row>, PgError>> + Send + 'a,
    ) {
        self.answers.push(Box::pin(answer));
    }

    /// How many statements were added.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether none was.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Sends everything, then waits for everything. A statement that cannot even be sent (a value that does not fit, a closed
    /// connection) is the last one: nothing behind it is sent, a commit least of all, and there are fewer answers.
    ///
    /// Cancelled in between, statements may have been run or not: the connection must not be used again.
    pub(super) async fn run(self) -> Vec<Result<Vec<Row>, PgError>> {
        in_order(self.answers).await
    }
}

/// Waits for several requests on one connection. The driver sends a request when it is first polled, so the first round, in
/// order, sends them all. The server answers in that order too: after that it is enough to look at the first that is
/// not done.
pub(super) async fn in_order<T, E, F>(mut requests: Vec<F>) -> Vec<Result<T, E>>
where
    F: Future<Output = Result<T, E>> + Unpin,
{
    let mut answers: Vec<Option<Result<T, E>>> = requests.iter().map(|_| None).collect();
    let mut sent = false;
    poll_fn(|context| {
        let mut all = true;
        for (request, answer) in requests.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none())
        {
            match Pin::new(request).poll(context) {
                Poll::Ready(result) => *answer = Some(result),
                Poll::Pending if sent => return Poll::Pending,
                Poll::Pending => all = false,
            }
            if !sent && matches!(answer, Some(Err(_))) {
                break;
            }
        }
        if !sent {
            sent = true;
            let unsent = answers.iter().position(|answer| matches!(answer, Some(Err(_)))).map(|at| at + 1);
            requests.truncate(unsent.unwrap_or(usize::MAX));
            answers.truncate(unsent.unwrap_or(usize::MAX));
        }
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use super::*;

    type Request<'a> = Pin<Box<dyn Future<Output = Result<u8, &'static str>> + 'a>>;

    #[tokio::test]
    async fn nothing_is_sent_behind_what_cannot_be_sent() {
        let sent = Cell::new(false);
        let commit = async {
            sent.set(true);
            Ok(3)
        };
        let requests: Vec<Request<'_>> =
            vec![Box::pin(ready(Ok(1))), Box::pin(ready(Err("too large"))), Box::pin(commit)];
        assert_eq!(in_order(requests).await, [Ok(1), Err("too large")]);
        assert!(!sent.get());
    }

    #[tokio::test]
    async fn all_are_sent_before_any_is_waited_for() {
        let sent = Cell::new(false);
        let first = poll_fn(|_| if sent.get() { Poll::Ready(Ok(1)) } else { Poll::Pending });
        let second = async {
            sent.set(true);
            Ok(2)
        };
        let requests: Vec<Request<'_>> = vec![Box::pin(first), Box::pin(second)];
        let both = async {
            tokio::select! {
                biased;
                answers = in_order(requests) => answers,
                // Wakes the task once more, as the driver does when an answer is there.
                () = async { tokio::task::yield_now().await; pending().await } => unreachable!("waits for ever"),
            }
        };
        assert_eq!(both.await, [Ok(1), Ok(2)]);
    }
}
