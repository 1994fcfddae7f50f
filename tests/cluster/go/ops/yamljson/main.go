// Yamljson reads YAML documents from standard input and writes them as one JSON array.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func documents(in io.Reader) ([]json.RawMessage, error) {
	found := []json.RawMessage{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		document, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, err
		}
		if string(document) != "null" {
			found = append(found, document)
		}
	}
}

func main() {
	found, err := documents(os.Stdin)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "yamljson:", err)
		os.Exit(1)
	}
}
