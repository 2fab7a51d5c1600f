// Command toolhost serves two tools to Turnwire.
//
//	go run ./examples/toolhost -listen 127.0.0.1:7600
//	go run ./examples/toolhost -register 127.0.0.1:7443 -id shop
//
// The first is for an address in the configuration ([tool_hosts.shop]); the
// second makes itself known, and keeps itself known for as long as it runs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	turnwirev1 "turnwire.dev/go/turnwire/v1"
)

const version = "1" // changes with the tools

var tools = []*turnwirev1.HostedTool{
	{
		Name:            "find_order",
		Description:     "Look an order up.",
		InputSchemaJson: `{"type":"object","properties":{"number":{"type":"integer"}},"required":["number"],"additionalProperties":false}`,
		Annotations:     &turnwirev1.ToolAnnotations{ReadOnly: proto.Bool(true)},
	},
	{
		Name:            "ship_order",
		Description:     "Ship an order.",
		InputSchemaJson: `{"type":"object","properties":{"number":{"type":"integer"}},"required":["number"],"additionalProperties":false}`,
		Deduplicated:    true, // a call that is sent again does nothing more
	},
}

// host implements ToolHostService.
type host struct {
	turnwirev1.UnimplementedToolHostServiceServer

	mu      sync.Mutex
	shipped map[string]string // by idempotency key; an app keeps this with its data
}

func (h *host) ListTools(_ context.Context, in *turnwirev1.ToolHostServiceListToolsRequest) (*turnwirev1.ToolHostServiceListToolsResponse, error) {
	if in.GetKnownVersion() == version {
		return &turnwirev1.ToolHostServiceListToolsResponse{Version: version, Unchanged: true}, nil
	}
	return &turnwirev1.ToolHostServiceListToolsResponse{Tools: tools, Version: version}, nil
}

func (h *host) CallTool(in *turnwirev1.CallToolRequest, out grpc.ServerStreamingServer[turnwirev1.CallToolResponse]) error {
	var arguments struct {
		Number int64 `json:"number"`
	}
	if err := json.Unmarshal([]byte(in.GetArgumentsJson()), &arguments); err != nil {
		return status.Error(codes.InvalidArgument, "the arguments are no order")
	}
	switch in.GetName() {
	case "find_order":
		return find(out, arguments.Number)
	case "ship_order":
		return send(out, text(h.ship(in, arguments.Number)))
	default:
		return status.Errorf(codes.Unimplemented, "there is no tool %s", in.GetName())
	}
}

// find tells how far it is, and stops when nobody waits any more.
func find(out grpc.ServerStreamingServer[turnwirev1.CallToolResponse], number int64) error {
	progress := &turnwirev1.ToolProgress{Done: 1, Total: proto.Float64(2), Message: "asked the warehouse"}
	if err := out.Send(&turnwirev1.CallToolResponse{Frame: &turnwirev1.CallToolResponse_Progress{Progress: progress}}); err != nil {
		return err
	}
	var delay time.Duration
	if number == 999 {
		delay = time.Minute // the warehouse is slow for some orders
	}
	select {
	case <-out.Context().Done():
		log.Print("cancelled")
		return out.Context().Err()
	case <-time.After(delay):
	}
	if number == 404 {
		return send(out, &turnwirev1.HostedToolResult{Content: []*turnwirev1.Part{part("There is no such order.")}, IsError: true})
	}
	found, err := json.Marshal(map[string]any{"number": number, "state": "PAID"})
	if err != nil {
		return err
	}
	return send(out, &turnwirev1.HostedToolResult{StructuredJson: proto.String(string(found))})
}

func (h *host) ship(in *turnwirev1.CallToolRequest, number int64) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := in.GetIdempotencyKey()
	if _, known := h.shipped[key]; !known {
		h.shipped[key] = fmt.Sprintf("Order %d is on its way, for %s.", number, in.GetCaller().GetPrincipal())
	}
	return h.shipped[key]
}

func text(words string) *turnwirev1.HostedToolResult {
	return &turnwirev1.HostedToolResult{Content: []*turnwirev1.Part{part(words)}}
}

func part(words string) *turnwirev1.Part {
	return &turnwirev1.Part{Content: &turnwirev1.Part_Text{Text: words}}
}

func send(out grpc.ServerStreamingServer[turnwirev1.CallToolResponse], result *turnwirev1.HostedToolResult) error {
	return out.Send(&turnwirev1.CallToolResponse{Frame: &turnwirev1.CallToolResponse_Result{Result: result}})
}

// keepRegistered makes the address known, and again before the lease ends.
func keepRegistered(ctx context.Context, server, id, address string) error {
	connection, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := turnwirev1.NewToolHostRegistryServiceClient(connection)
	const lease = 30 * time.Second
	for {
		request := &turnwirev1.RegisterToolHostRequest{HostId: id, Address: address, Lease: durationpb.New(lease)}
		pause := lease / 3
		if answer, err := client.RegisterToolHost(ctx, request); err != nil {
			if ctx.Err() == nil {
				log.Printf("not registered: %v", err)
			}
			pause = time.Second
		} else {
			log.Printf("registered: %s", answer.GetToolHost().GetState())
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_, err := client.UnregisterToolHost(last, &turnwirev1.UnregisterToolHostRequest{HostId: id})
			return err
		case <-time.After(pause):
		}
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "where to listen; port 0 takes a free one")
	register := flag.String("register", "", "Turnwire's address, to be made known to it")
	id := flag.String("id", "shop", "the host's id there")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	turnwirev1.RegisterToolHostServiceServer(server, &host{shipped: map[string]string{}})
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Printf("listening on %s\n", listener.Addr())

	if *register != "" {
		err = keepRegistered(ctx, *register, *id, listener.Addr().String())
	} else {
		select {
		case <-ctx.Done():
		case err = <-served:
		}
	}
	server.Stop()
	return err
}

func main() {
	if err := run(); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}
