# The SBOM lists what Cargo.lock does: of the binary alone a scanner learns nothing.
ARG BUILDKIT_SBOM_SCAN_CONTEXT=true

# Runs on the machine's own architecture and compiles for the image's, which is many times faster than emulating that.
# The digest is that of the image for all architectures. A newer one: docker buildx imagetools inspect rust:1.95-bookworm
FROM --platform=$BUILDPLATFORM rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
# amd64 or arm64; the machine's own where the tool says nothing.
ARG TARGETARCH
WORKDIR /src
RUN arch="${TARGETARCH:-$(dpkg --print-architecture)}" \
    && case "$arch" in \
         amd64) cpu=x86_64; package=gcc-x86-64-linux-gnu ;; \
         arm64) cpu=aarch64; package=gcc-aarch64-linux-gnu ;; \
         *) echo "the image can be built for amd64 and arm64, not for $arch" >&2; exit 1 ;; \
       esac \
    && if [ "$arch" != "$(dpkg --print-architecture)" ]; then \
         apt-get update && apt-get install -y --no-install-recommends "$package" "libc6-dev-$arch-cross"; \
       fi \
    && rustup target add "$cpu-unknown-linux-gnu" \
    && echo "$cpu" > /cpu
COPY . .
# The commit that `chartwright version` names: --build-arg CHARTWRIGHT_COMMIT=$(git rev-parse HEAD)
ARG CHARTWRIGHT_COMMIT
# +crt-static links the C library into the binary, so that the image needs no base. With an explicit target the flags
# are not used for build scripts and macros, which have to stay dynamic. Packed relocations save 0.8 MB. Merging identical
# functions saves 0.2 MB: Rust has a linker that can do it where amd64 is built on amd64, and only without another linker.
RUN cpu="$(cat /cpu)" && target="$cpu-unknown-linux-gnu" \
    && case "$(uname -m)/$cpu" in \
         x86_64/x86_64) link="-C link-arg=-Wl,--icf=all" ;; \
         aarch64/aarch64) link= ;; \
         *) link="-C linker=$cpu-linux-gnu-gcc" ;; \
       esac \
    && RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs $link" \
       cargo build --release --locked --bin chartwright --target "$target" \
    && install -D "target/$target/release/chartwright" /out/chartwright

# The program alone: docker build --target binary --output dist .
FROM scratch AS binary
COPY --from=build /out/chartwright /chartwright

# What operators are made from: FROM it, and COPY watches.yaml and charts into its folder. As in helm-operator's image, the
# Deployment's args are flags of `run`. The API server's certificate is checked against the CA that every pod gets with its
# service account, so no CA bundle is needed.
FROM scratch AS base
COPY --from=build /out/chartwright /usr/local/bin/chartwright
ENV HOME=/opt/chartwright
WORKDIR ${HOME}
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/chartwright", "run", "--watches-file=./watches.yaml"]

# The operator of this repository's own charts.
FROM base
COPY watches.yaml ./
COPY charts charts
