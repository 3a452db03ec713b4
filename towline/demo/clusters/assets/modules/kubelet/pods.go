package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

type sizes = <-chan remotecommand.TerminalSize

// pods plays the containers of all pods of the cluster.
type pods struct {
	home       string
	localPorts bool
}

// ExecInContainer runs a command until it ends or the caller leaves; an exit code other than 0
// is a CodeExitError, as remotecommand expects.
func (p *pods) ExecInContainer(ctx context.Context, pod, _, container string, command []string,
	stdin io.Reader, stdout, stderr io.WriteCloser, tty bool, resize sizes, _ time.Duration) error {
	cmd, err := p.command(ctx, pod, container, command)
	if err != nil {
		return err
	}
	if tty {
		err = onTerminal(cmd, stdin, stdout, resize)
	} else {
		err = onPipes(cmd, stdin, stdout, stderr)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

func (p *pods) command(ctx context.Context, pod, container string, command []string) (*exec.Cmd, error) {
	home := filepath.Join(p.home, filepath.FromSlash(pod))
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "TERM=xterm", "HOME=" + home,
		"HOSTNAME=" + path.Base(pod), "POD_NAME=" + path.Base(pod),
		"POD_NAMESPACE=" + path.Dir(pod), "CONTAINER_NAME=" + container,
	}
	return cmd, nil
}

func onPipes(cmd *exec.Cmd, stdin io.Reader, stdout, stderr io.WriteCloser) error {
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	if stdin == nil {
		return cmd.Run()
	}
	// A pipe of our own, because cmd.Wait waits for a reader given as cmd.Stdin to end, and a
	// client that keeps its standard input open would then never learn the exit code.
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(input, stdin)
		_ = input.Close()
	}()
	return cmd.Wait()
}

func onTerminal(cmd *exec.Cmd, stdin io.Reader, stdout io.WriteCloser, resize sizes) error {
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for size := range resize {
			_ = pty.Setsize(terminal, &pty.Winsize{Cols: size.Width, Rows: size.Height})
		}
	}()
	if stdin != nil {
		go func() { _, _ = io.Copy(terminal, stdin) }()
	}
	if stdout != nil {
		// Reading a terminal fails with EIO once its program has gone: that is its end of file.
		_, _ = io.Copy(stdout, terminal)
	}
	return cmd.Wait()
}

// AttachContainer greets, then echoes.
func (p *pods) AttachContainer(ctx context.Context, pod, _, container string,
	stdin io.Reader, stdout, _ io.WriteCloser, _ bool, _ sizes) error {
	if stdout == nil {
		stdout = discard{}
	}
	fmt.Fprintf(stdout, "attached to %s of %s\n", container, pod)
	if stdin == nil {
		<-ctx.Done()
		return nil
	}
	_, err := io.Copy(stdout, stdin)
	return err
}

type discard struct{}

func (discard) Write(data []byte) (int, error) { return len(data), nil }
func (discard) Close() error                   { return nil }

// PortForward serves one connection to a port of a pod.
func (p *pods) PortForward(_ context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	if p.localPorts {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if err == nil {
			return splice(stream, conn.(*net.TCPConn))
		}
	}
	return page(stream, fmt.Sprintf("port %d of %s\n", port, pod))
}

// splice joins both directions and returns when each has ended.
func splice(stream io.ReadWriteCloser, conn *net.TCPConn) error {
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.CloseWrite()
		close(sent)
	}()
	_, err := io.Copy(stream, conn)
	_ = stream.Close()
	<-sent
	return err
}

// page answers every HTTP request of a connection with the same text.
func page(stream io.ReadWriter, text string) error {
	input := bufio.NewReader(stream)
	for {
		request, err := http.ReadRequest(input)
		if err != nil {
			return nil
		}
		_, _ = io.Copy(io.Discard, request.Body)
		response := http.Response{
			StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: request, Close: request.Close,
			Header:        http.Header{"Content-Type": {"text/plain"}},
			ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
		}
		if err := response.Write(stream); err != nil || request.Close {
			return err
		}
	}
}
