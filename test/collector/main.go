// The OpenTelemetry collector's own receiver for OTLP, for a test: it prints the traces that it accepted, one JSON
// document a line. The first line is the address of its HTTP port.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return err
	}

	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	settings := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}
	if err := confmap.NewFromStringMap(settings).Unmarshal(config); err != nil {
		return err
	}

	printer, err := consumer.NewTraces(func(_ context.Context, traces ptrace.Traces) error {
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err == nil {
			_, err = fmt.Println(string(line))
		}
		return err
	})
	if err != nil {
		return err
	}
	receiver, err := factory.CreateTraces(context.Background(), receivertest.NewNopSettings(factory.Type()), config, printer)
	if err != nil {
		return err
	}
	if err := receiver.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("http://" + address)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	return receiver.Shutdown(context.Background())
}
