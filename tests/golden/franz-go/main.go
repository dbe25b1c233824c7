// Has franz-go write records to the embedded cluster, and keeps the Fetch answers as golden frames:
//
//	nearside cluster -t none:1 -t gzip:1 -t snappy:1 -t lz4:1 -t zstd:1 &
//	go run . 127.0.0.1:9092 127.0.0.1:9093 127.0.0.1:9094
package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	records = 40
	version = 12
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// What record n holds: nothing, something, and empty things beside them.
func record(n int) *kgo.Record {
	r := &kgo.Record{
		Timestamp: time.UnixMilli(int64(1000 + n)),
		Headers:   []kgo.RecordHeader{{Key: "number", Value: []byte(strconv.Itoa(n))}, {Key: "number"}},
	}
	if n%3 != 0 {
		r.Key = []byte(strings.Repeat("k", n%5))
	}
	if n%4 != 0 {
		r.Value = []byte(strings.Repeat("value "+strconv.Itoa(n)+" ", n%7))
	}
	return r
}

func main() {
	brokers := os.Args[1:]
	for codec, compression := range codecs {
		produce(brokers, codec, compression)
		var frame []byte
		// Only the leader sends records.
		for _, broker := range brokers {
			if answer := fetch(broker, codec); len(answer) > len(frame) {
				frame = answer
			}
		}
		keep(codec, frame)
	}
}

func produce(brokers []string, topic string, codec kgo.CompressionCodec) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(codec),
		// One batch of all, and another one when half are there.
		kgo.ProducerLinger(time.Second),
	)
	check(err)
	defer client.Close()
	ctx := context.Background()
	for n := range records {
		client.Produce(ctx, record(n), func(_ *kgo.Record, err error) { check(err) })
		if n == records/2 {
			check(client.Flush(ctx))
		}
	}
	check(client.Flush(ctx))
}

// The whole answer to a Fetch from the beginning, with its length.
func fetch(broker, topic string) []byte {
	request := kmsg.NewFetchRequest()
	request.Version = version
	request.ReplicaID, request.SessionEpoch, request.MaxBytes = -1, -1, 1<<20
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 1 << 20
	topics := kmsg.NewFetchRequestTopic()
	topics.Topic, topics.Partitions = topic, []kmsg.FetchRequestTopicPartition{partition}
	request.Topics = []kmsg.FetchRequestTopic{topics}
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("golden"))

	socket, err := net.Dial("tcp", broker)
	check(err)
	defer socket.Close()
	_, err = socket.Write(formatter.AppendRequest(nil, &request, 0))
	check(err)
	length := make([]byte, 4)
	_, err = io.ReadFull(socket, length)
	check(err)
	frame := make([]byte, 4+binary.BigEndian.Uint32(length))
	copy(frame, length)
	_, err = io.ReadFull(socket, frame[4:])
	check(err)
	return frame
}

func keep(codec string, frame []byte) {
	name := fmt.Sprintf("%d-franz-go-%s", version, codec)
	text := fmt.Sprintf("# Batches of franz-go 1.22.3, kept by the embedded cluster, Fetch v%d: %s\n", version, name)
	for len(frame) > 0 {
		line := frame[:min(32, len(frame))]
		text += hex.EncodeToString(line) + "\n"
		frame = frame[len(line):]
	}
	check(os.WriteFile("../fetch/"+name+".hex", []byte(text), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
