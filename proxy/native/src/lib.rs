//! Native data plane of the Kubernetes proxy.
//! Python decides about every request; this crate repeats its decision on further requests with the
//! same head, for some seconds, without the interpreter. See docs/explanation/kubernetes-proxy.md.

#![cfg_attr(not(feature = "python"), allow(dead_code))]

mod accept;
mod agent;
mod backend;
mod budget;
mod exchange;
mod flow;
mod gather;
mod http1;
mod http2;
mod hub;
mod inbox;
mod incoming;
mod link;
mod observer;
mod outgoing;
mod proxy_header;
#[cfg(feature = "python")]
mod python;
mod questions;
#[cfg(test)]
mod random;
mod raw;
mod request_head;
mod response_stream;
mod runtime;
mod sockets;
mod spare;
mod splice;
mod tcp;
mod tls_listener;
mod verdicts;
mod window;
mod windows;
mod wire;
