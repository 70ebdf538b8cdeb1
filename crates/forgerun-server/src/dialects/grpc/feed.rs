//! A stream of messages as a chain of futures, each of which ends with the next message and the
//! rest of the feed. A waiting stream is one allocation, without a task of its own.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_stream::Stream;
use tonic::{Code, Status};

/// The source of a stream's messages.
pub(super) trait MessageFeed: Sized + Send + 'static {
    type Message: Send + 'static;

    /// The next message, and the rest of the feed; `None` at the end. An error is the last message.
    fn next(self) -> impl Future<Output = Option<(Result<Self::Message, Status>, Self)>> + Send;
}

type NextMessage<F> =
    Pin<Box<dyn Future<Output = Option<(Result<<F as MessageFeed>::Message, Status>, F)>> + Send>>;

pub(super) type Messages<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// The stream of a feed, until its deadline, if it has one.
pub(super) fn stream<F: MessageFeed>(
    feed: F,
    deadline: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
) -> Messages<F::Message> {
    Box::pin(FeedStream { next: Some(Box::pin(feed.next())), deadline })
}

struct FeedStream<F: MessageFeed> {
    /// `None` at the end.
    next: Option<NextMessage<F>>,
    deadline: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<F: MessageFeed> Stream for FeedStream<F> {
    type Item = Result<F::Message, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        match next.as_mut().poll(context) {
            Poll::Ready(Some((Ok(message), feed))) => {
                self.next = Some(Box::pin(feed.next()));
                return Poll::Ready(Some(Ok(message)));
            }
            Poll::Ready(ended) => {
                self.next = None;
                return Poll::Ready(ended.map(|(message, _)| message));
            }
            Poll::Pending => {}
        }
        let is_over =
            self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready());
        if !is_over {
            return Poll::Pending;
        }
        self.next = None;
        // The client's deadline has passed, so only the code matters.
        Poll::Ready(Some(Err(Status::new(Code::DeadlineExceeded, "The deadline of the call is over."))))
    }
}
