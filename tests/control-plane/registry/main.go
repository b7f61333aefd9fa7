// A registry for tests: that of the distribution project, on a port of 127.0.0.1 that it prints. It ends with its
// standard input.
//
//	registry [-auth basic|token] [-tls FOLDER] [-charts FOLDER]
//
// It begins with what Helm has pushed, as tests/fixtures/fetch keeps it: below charts/ and, once more, below public/.
// The only user is "tester" with the password "secret". With tokens, /token gives them to that user, and to nobody else but
// for pulling what lies below public/. The folder gets ca.pem, the certificate to trust.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	"github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"
)

const (
	username = "tester"
	password = "secret"
	service  = "registry"
)

func main() {
	auth := flag.String("auth", "", "basic or token")
	folder := flag.String("tls", "", "folder for the certificate")
	charts := flag.String("charts", "", "folder of what was pushed")
	flag.Parse()
	logrus.SetLevel(logrus.PanicLevel)
	scratch, err := os.MkdirTemp("", "registry")
	check(err)
	defer os.RemoveAll(scratch)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	address := "http://" + listener.Addr().String()
	if *folder != "" {
		address = "https://" + listener.Addr().String()
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate(*folder)}})
	}
	store := configuration.Parameters{"rootdirectory": filepath.Join(scratch, "storage")}
	config := &configuration.Configuration{Storage: configuration.Storage{"filesystem": store}}
	config.Log.Level = "panic"
	config.Log.AccessLog.Disabled = true
	config.HTTP.Secret = "unimportant"
	config.Catalog.MaxEntries = 1000
	if *charts != "" {
		load(*charts, handlers.NewApp(context.Background(), config))
	}
	mux := http.NewServeMux()
	switch *auth {
	case "basic":
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		check(err)
		path := filepath.Join(scratch, "htpasswd")
		check(os.WriteFile(path, []byte(username+":"+string(hash)+"\n"), 0o600))
		config.Auth = configuration.Auth{"htpasswd": {"realm": service, "path": path}}
	case "token":
		issuer := newIssuer(scratch)
		mux.Handle("/token", issuer)
		config.Auth = configuration.Auth{"token": {
			"realm": address + "/token", "issuer": service, "service": service,
			"rootcertbundle": "", "jwks": issuer.keys,
		}}
	}
	mux.Handle("/v2/", handlers.NewApp(context.Background(), config))
	// Clients that go away in the middle are part of the tests.
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { log.Print(server.Serve(listener)) }()
	fmt.Println(address)
	io.Copy(io.Discard, os.Stdin)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// load pushes what is in the folder: repository/* and registry/blobs/* by their digests, registry/CHART/TAG.json.
func load(folder string, registry http.Handler) {
	blobs := map[digest.Digest][]byte{}
	for _, pattern := range []string{"repository/*", "registry/blobs/*"} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		check(err)
		for _, path := range paths {
			data, err := os.ReadFile(path)
			check(err)
			blobs[digest.FromBytes(data)] = data
		}
	}
	send := func(method, path, kind string, data []byte) string {
		request := httptest.NewRequest(method, path, bytes.NewReader(data))
		request.Header.Set("Content-Type", kind)
		answer := httptest.NewRecorder()
		registry.ServeHTTP(answer, request)
		if answer.Code >= 300 {
			log.Fatalf("%s %s: %d %s", method, path, answer.Code, answer.Body)
		}
		return answer.Header().Get("Location")
	}
	manifests, err := filepath.Glob(filepath.Join(folder, "registry/*/*.json"))
	check(err)
	for _, path := range manifests {
		chart, tag := filepath.Base(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".json")
		if chart == "blobs" {
			continue
		}
		text, err := os.ReadFile(path)
		check(err)
		var manifest v1.Manifest
		check(json.Unmarshal(text, &manifest))
		for _, repository := range []string{"/v2/charts/" + chart, "/v2/public/" + chart} {
			for _, blob := range append(manifest.Layers, manifest.Config) {
				place := send("POST", repository+"/blobs/uploads/", "", nil)
				place += "&digest=" + url.QueryEscape(blob.Digest.String())
				send("PUT", place, "application/octet-stream", blobs[blob.Digest])
			}
			send("PUT", repository+"/manifests/"+tag, v1.MediaTypeImageManifest, text)
		}
	}
}

// certificate makes a certificate for 127.0.0.1, and writes it to the folder.
func certificate(folder string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "registry"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	check(os.WriteFile(filepath.Join(folder, "ca.pem"), text, 0o644))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// issuer gives tokens.
type issuer struct {
	signer jose.Signer
	// The file with the keys that the registry trusts.
	keys string
}

func newIssuer(folder string) issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	public := jose.JSONWebKey{Key: key.Public(), KeyID: "k", Algorithm: string(jose.ES256), Use: "sig"}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	check(err)
	path := filepath.Join(folder, "jwks.json")
	check(os.WriteFile(path, text, 0o600))
	private := jose.JSONWebKey{Key: key, KeyID: "k"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, nil)
	check(err)
	return issuer{signer, path}
}

func (i issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, pass, given := r.BasicAuth()
	if given && (user != username || pass != password) {
		http.Error(w, "wrong password", http.StatusUnauthorized)
		return
	}
	var access []*token.ResourceActions
	for _, scope := range r.URL.Query()["scope"] {
		// repository:NAME:ACTION,ACTION
		parts := strings.Split(scope, ":")
		if len(parts) == 3 && (given || strings.HasPrefix(parts[1], "public/")) {
			actions := []string{"pull"}
			if given {
				actions = strings.Split(parts[2], ",")
			}
			access = append(access, &token.ResourceActions{Type: parts[0], Name: parts[1], Actions: actions})
		}
	}
	now := time.Now()
	claims := token.ClaimSet{
		Issuer: service, Subject: user, Audience: token.AudienceList{service}, JWTID: "t", Access: access,
		IssuedAt: now.Unix(), NotBefore: now.Add(-time.Minute).Unix(), Expiration: now.Add(time.Hour).Unix(),
	}
	text, err := jwt.Signed(i.signer).Claims(claims).Serialize()
	check(err)
	check(json.NewEncoder(w).Encode(map[string]string{"token": text}))
}
