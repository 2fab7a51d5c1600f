// Command ask runs one turn and shows it as it comes:
//
//	go run ./examples/ask 127.0.0.1:7443 "What time is it in Tokyo?"
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	turnwire "turnwire.dev/go"
	pb "turnwire.dev/go/turnwire/v1"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: ask ADDRESS QUESTION")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := ask(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, address, question string) error {
	client, err := turnwire.NewClient(address, turnwire.Options{Token: os.Getenv("TURNWIRE_TOKEN")})
	if err != nil {
		return err
	}
	defer client.Close()
	request := &pb.RunTurnRequest{Turn: &pb.TurnSpec{Input: []*pb.Message{turnwire.UserMessage(question)}}}
	view, err := client.Run(ctx, request, turnwire.RunOptions{OnUpdate: show})
	if err != nil {
		return err
	}
	outcome := view.Outcome()
	fmt.Println(outcome.GetKind(), outcome.GetFailure().GetMessage())
	return nil
}

func show(update *turnwire.Update, _ *turnwire.RunView) {
	for _, event := range update.Events {
		switch event := event.GetEvent().(type) {
		case *pb.RunEvent_ToolCallStarted:
			fmt.Println("calls", event.ToolCallStarted.GetTool().GetRoutedName())
		case *pb.RunEvent_TextDelta:
			fmt.Print(event.TextDelta.GetText())
		case *pb.RunEvent_RunWaiting:
			fmt.Println("waits for you: see turnwire approvals list")
		case *pb.RunEvent_RunFinished:
			fmt.Println()
		}
	}
}
