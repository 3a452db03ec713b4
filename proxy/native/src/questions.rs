//! Requests that the agent's Python checks before they are sent.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::inbox::Inbox;
use crate::runtime::locked;
use crate::wire;

/// A control plane whose request is declined sends it over the control link.
const MAX_WAITING: usize = 256;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A question to Python: the caller, and the head with its audit ID.
pub struct Question {
    pub number: u64,
    pub id: [u8; 16],
    pub identity: Bytes,
    pub head: Bytes,
    pub upgrade: bool,
}

#[derive(Default)]
pub struct Questions {
    pub inbox: Inbox<Question>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Option<Bytes>>>>,
    last: AtomicU64,
}

impl Questions {
    /// Returns the bytes to send; None: Python declines the packed request or is not in time.
    pub async fn ask(&self, packed: &[u8], id: [u8; 16], upgrade: bool) -> Option<Bytes> {
        let (identity, before, after) = wire::parts(packed)?;
        let head = Bytes::from([before, &wire::hex(&id), after].concat());
        let identity = Bytes::copy_from_slice(identity);
        let (pending, answer) = self.register()?;
        let number = pending.number;
        let is_asked = self.inbox.put(Question { number, id, identity, head, upgrade });
        if !is_asked {
            return None;
        }
        timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok()?
    }

    /// Answers a question; the asker may have given up.
    pub fn answer(&self, number: u64, request: Option<Bytes>) {
        let waiting = locked(&self.waiting).remove(&number);
        if let Some(waiting) = waiting {
            let _ = waiting.send(request);
        }
    }

    fn register(&self) -> Option<(PendingQuestion<'_>, oneshot::Receiver<Option<Bytes>>)> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = locked(&self.waiting);
        if waiting.len().max(self.inbox.len()) >= MAX_WAITING {
            return None;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        waiting.insert(number, sender);
        Some((PendingQuestion { questions: self, number }, receiver))
    }
}

/// A question that waits while this exists.
struct PendingQuestion<'a> {
    questions: &'a Questions,
    number: u64,
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        locked(&self.questions.waiting).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use std::future::{Future, poll_fn};

    fn packed() -> Bytes {
        wire::pack(
            b"Impersonate-User: a\r\n",
            b"GET / HTTP/1.1\r\nAudit-ID: ",
            b"\r\n\r\n",
            &[0; 16],
        )
    }

    #[tokio::test]
    async fn an_answer_reaches_its_question() {
        let questions = Questions::default();
        questions.inbox.descriptor().unwrap();
        let (packed, id) = (packed(), [7; 16]);
        let answering = async {
            let [first, second] = &questions.inbox.take(9)[..] else { panic!() };
            assert_eq!(first.identity, "Impersonate-User: a\r\n");
            let head = format!("GET / HTTP/1.1\r\nAudit-ID: {}\r\n\r\n", "07".repeat(16));
            assert_eq!(first.head, head);
            questions.answer(second.number, None);
            questions.answer(first.number, Some(Bytes::from_static(b"sent")));
            questions.answer(first.number, None);
            questions.answer(99, None);
        };
        let (asked, declined) =
            (questions.ask(&packed, id, false), questions.ask(&packed, id, false));
        let (asked, declined, ()) = tokio::join!(asked, declined, answering);
        assert_eq!((asked.as_deref(), declined), (Some(&b"sent"[..]), None));
        assert!(locked(&questions.waiting).is_empty());
    }

    #[tokio::test]
    async fn only_so_many_questions_wait_and_a_dropped_one_does_not() {
        let questions = Questions::default();
        let (packed, id) = (packed(), [7; 16]);
        assert!(questions.ask(&packed, id, false).await.is_none(), "nobody answers");
        questions.inbox.descriptor().unwrap();
        let mut waiting = Vec::new();
        for _ in 0..MAX_WAITING {
            let mut asked = Box::pin(questions.ask(&packed, id, false));
            assert!(
                poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending())).await
            );
            waiting.push(asked);
        }
        assert!(questions.ask(&packed, id, false).await.is_none());
        waiting.clear();
        assert!(locked(&questions.waiting).is_empty());
        assert!(questions.ask(&packed, id, false).await.is_none(), "Python has taken none");
        questions.inbox.take(MAX_WAITING);
        let mut asked = pin!(questions.ask(&packed, id, false));
        assert!(poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending())).await);
    }

    #[tokio::test]
    async fn each_question_gets_its_own_answer_in_any_order() {
        let (mut random, questions) = (Random::new(13), Questions::default());
        questions.inbox.descriptor().unwrap();
        let packed = packed();
        let mut asked = Vec::new();
        let mut open: Vec<(Question, u64)> = Vec::new();
        for step in 0..5_000_u64 {
            // Otherwise tokio holds this task back.
            tokio::task::yield_now().await;
            let mut id = [0; 16];
            id[..8].copy_from_slice(&step.to_be_bytes());
            match random.below(4) {
                0 | 1 => {
                    let mut question = Box::pin(questions.ask(&packed, id, false));
                    let is_waiting = poll(question.as_mut()).await.is_none();
                    assert_eq!(is_waiting, asked.len() < MAX_WAITING);
                    if is_waiting {
                        asked.push((step, question));
                    }
                }
                2 if !asked.is_empty() => {
                    drop(asked.swap_remove(random.below(asked.len())));
                }
                _ => {
                    for taken in questions.inbox.take(random.below(5)) {
                        let number = u64::from_be_bytes(*taken.id.first_chunk().unwrap());
                        open.push((taken, number));
                    }
                    if open.is_empty() {
                        continue;
                    }
                    let (question, step) = open.swap_remove(random.below(open.len()));
                    let answer = random.choice(&[None, Some(step)]).map(|step| step.to_string());
                    questions.answer(question.number, answer.clone().map(Bytes::from));
                    if let Some(place) = asked.iter().position(|(own, _)| *own == step) {
                        let (_, mut question) = asked.swap_remove(place);
                        let got = poll(question.as_mut()).await;
                        assert_eq!(got, Some(answer.map(Bytes::from)));
                    }
                }
            }
            assert_eq!(locked(&questions.waiting).len(), asked.len());
        }
    }

    async fn poll<F: Future>(mut question: Pin<&mut F>) -> Option<F::Output> {
        poll_fn(|context| match question.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn a_malformed_request_is_no_question() {
        let questions = Questions::default();
        questions.inbox.descriptor().unwrap();
        let packed = packed();
        for size in 0..60 {
            assert!(questions.ask(&packed[..size], [7; 16], false).await.is_none());
        }
        assert_eq!(questions.inbox.len(), 0);
    }
}
