//! Options of sockets, and TLS settings.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::tcp::Tcp;

const PIECE: usize = 16 << 10;
const LARGE_PIECE: usize = 64 << 10;
/// Peers that acknowledge nothing for this time are gone.
const DEAD_USER: Duration = Duration::from_secs(60);
const DEAD_LINK: Duration = Duration::from_secs(20);
/// Bytes of a link that wait in the kernel, where small responses cannot overtake large ones.
const UNSENT: u32 = 128 << 10;
const UNSENT_AGENT: u32 = 32 << 10;

thread_local! {
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; LARGE_PIECE]);
}

/// Protocols that TLS negotiates (ALPN).
pub const HTTP2: &[u8] = b"h2";
pub const HTTP1: &[u8] = b"http/1.1";

/// A TCP connection, with or without TLS.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn tcp(&self) -> &TcpStream;

    /// Turns the next close into a reset, which no client mistakes for the end of a response.
    fn reset_on_close(&self) {
        let _ = SockRef::from(self.tcp()).set_linger(Some(Duration::ZERO));
    }
}

impl Socket for Tcp {
    fn tcp(&self) -> &TcpStream {
        &self.stream
    }
}

impl Socket for tokio_rustls::server::TlsStream<Tcp> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0.tcp()
    }
}

impl Socket for tokio_rustls::client::TlsStream<Tcp> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0.tcp()
    }
}

/// Appends what has arrived, at most 16 KiB; returns its size. Nothing is allocated while it waits:
/// most connections rest.
pub async fn read_some(
    from: &mut (impl AsyncRead + Unpin),
    into: &mut BytesMut,
) -> io::Result<usize> {
    poll_fn(|context| {
        let mut space = [MaybeUninit::uninit(); PIECE];
        let mut read = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut *from).poll_read(context, &mut read))?;
        into.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
    .await
}

/// Reads at most 64 KiB; empty: the other side has ended. As above, nothing is allocated before.
pub async fn read_piece(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    poll_fn(|context| {
        READ.with_borrow_mut(|space| {
            let mut read = ReadBuf::new(space);
            ready!(Pin::new(&mut *from).poll_read(context, &mut read))?;
            Poll::Ready(Ok(Bytes::copy_from_slice(read.filled())))
        })
    })
    .await
}

// A socket works without its options, so their failure is none.

pub fn tune_user(tcp: &TcpStream) {
    let _ = tcp.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(tcp).set_tcp_user_timeout(Some(DEAD_USER));
}

/// As for a data link, with less in the kernel: small frames of the mux overtake large ones.
pub fn tune_agent(tcp: &TcpStream) {
    tune_link(tcp);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(tcp).set_tcp_notsent_lowat(UNSENT_AGENT);
}

pub fn tune_link(tcp: &TcpStream) {
    let socket = SockRef::from(tcp);
    let _ = tcp.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(DEAD_LINK / 2).with_interval(DEAD_LINK / 4);
    let _ = socket.set_tcp_keepalive(&keepalive);
    #[cfg(target_os = "linux")]
    {
        let _ = socket.set_tcp_user_timeout(Some(DEAD_LINK));
        let _ = socket.set_tcp_notsent_lowat(UNSENT);
    }
}

/// Reads a certificate chain and its key; offers these protocols.
pub fn server_tls(
    certificate: &str,
    key: &str,
    protocols: &[&[u8]],
) -> Result<Arc<ServerConfig>, String> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("{certificate}: {error}"))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{key}: {error}"))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

/// Trusts these certificates (DER), which may be of intermediate authorities.
pub fn client_tls(authorities: Vec<Vec<u8>>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        // A certificate that is no trust anchor trusts nothing.
        let _ = roots.add(CertificateDer::from(authority));
    }
    if roots.is_empty() {
        return Err("no certificate authority is trusted".into());
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP1.to_vec()];
    Ok(Arc::new(config))
}

/// Prefers AES with keys of 128 bits, as most clients do: it is secure, and the fastest.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        !matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        )
    });
    Arc::new(provider)
}

impl<S: Socket + ?Sized> Socket for Box<S> {
    fn tcp(&self) -> &TcpStream {
        (**self).tcp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn peers_that_acknowledge_nothing_are_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tune_user(&tcp);
        assert_eq!(SockRef::from(&tcp).tcp_user_timeout().unwrap(), Some(DEAD_USER));
        tune_link(&tcp);
        assert_eq!(SockRef::from(&tcp).tcp_user_timeout().unwrap(), Some(DEAD_LINK));
    }
}
