# syntax=docker/dockerfile:1
FROM rust:1.95-bookworm AS build
# The commit that `chartwright version` names: --build-arg CHARTWRIGHT_COMMIT=$(git rev-parse HEAD)
ARG CHARTWRIGHT_COMMIT
WORKDIR /src
COPY . .
# +crt-static links the C library into the binary, so that the image needs no base. With an explicit target the flag
# isn't used for build scripts and macros, which have to stay dynamic.
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
    && RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --bin chartwright --target "$target" \
    && install -D "target/$target/release/chartwright" /out/chartwright

# Nothing but the binary, the charts and watches.yaml. The API server's certificate is checked against the CA that
# every pod gets with its service account, so no CA bundle is needed.
FROM scratch
COPY --from=build /out/chartwright /chartwright
WORKDIR /opt/chartwright
COPY watches.yaml ./
COPY charts charts
USER 65532:65532
ENTRYPOINT ["/chartwright"]
CMD ["run", "--watches-file=./watches.yaml"]
