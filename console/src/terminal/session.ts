// Shell in a container: Kubernetes' channel protocol between a terminal and the Kubernetes proxy.
import { execIn, type Pod } from "../api/kubeProxy";
import { openTerminal, type Screen } from "./terminal";
import { exitMessage } from "./exitStatus";

const STDIN = 0;
const ERROR = 3;
const RESIZE = 4;
// The first shell that the image has.
const SHELL = ["/bin/sh", "-c", "exec $(command -v bash || command -v ash || echo sh)"];

function frame(channel: number, text: string): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(text);
  const bytes = new Uint8Array(body.length + 1);
  bytes[0] = channel;
  bytes.set(body, 1);
  return bytes;
}

function join({ terminal }: Screen, socket: WebSocket): void {
  const resize = () => socket.send(frame(RESIZE, JSON.stringify({ Width: terminal.cols, Height: terminal.rows })));
  const send = (text: string) => socket.readyState === WebSocket.OPEN && socket.send(frame(STDIN, text));
  socket.onopen = () => {
    resize();
    terminal.focus();
  };
  terminal.onData(send);
  terminal.onResize(() => socket.readyState === WebSocket.OPEN && resize());
  socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
    const bytes = new Uint8Array(data);
    if (bytes[0] === ERROR) terminal.write(`\r\n${exitMessage(new TextDecoder().decode(bytes.subarray(1)))}\r\n`);
    else terminal.write(bytes.subarray(1));
  };
  socket.onclose = ({ reason }) => terminal.write(`\r\n[closed${reason === "" ? "" : `: ${reason}`}]\r\n`);
}

/** Opens a shell in an element; returns a function that closes it. */
export function openShell(host: HTMLElement, handle: string, pod: Pod, container: string): () => void {
  const screen = openTerminal(host);
  let socket: WebSocket | null = null;
  let cancelled = false;
  screen.fit();
  execIn(handle, pod, container, SHELL).then(
    (opened) => {
      socket = opened;
      if (cancelled) opened.close();
      else join(screen, opened);
    },
    (error: unknown) => screen.terminal.write(error instanceof Error ? error.message : String(error)),
  );
  return () => {
    cancelled = true;
    socket?.close();
    screen.end();
  };
}
