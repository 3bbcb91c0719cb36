package client;

import com.google.protobuf.ByteString;
import io.grpc.ManagedChannel;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.netty.channel.epoll.EpollDomainSocketChannel;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.unix.DomainSocketAddress;
import java.io.File;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.net.ssl.SSLException;
import sealcar.v1.Common.PackageRef;
import sealcar.v1.Common.PayloadKind;
import sealcar.v1.Common.Scope;
import sealcar.v1.PackageStoreGrpc;
import sealcar.v1.PackageStoreOuterClass.ListRequest;
import sealcar.v1.PayloadsGrpc;
import sealcar.v1.PayloadsOuterClass.BeginRequest;
import sealcar.v1.PayloadsOuterClass.CommitRequest;
import sealcar.v1.PayloadsOuterClass.OpenRequest;
import sealcar.v1.PayloadsOuterClass.ReadRequest;
import sealcar.v1.PayloadsOuterClass.WriteBegin;
import sealcar.v1.PayloadsOuterClass.WriteRequest;
import sealcar.v1.PayloadsOuterClass.WriteResponse;

/**
 * A client of sealcar's gRPC in Java: lists, reads a payload as a stream, writes it as a new variant.
 * Arguments: SOCKET|HOST:PORT PACKAGE COMPONENT VARIANT PAYLOAD NEW_VARIANT.
 */
public final class Main {
  private static final int PIECE = 512 << 10;

  private Main() {}

  /** On a Unix socket the daemon takes no credentials and asks the kernel who calls; elsewhere both show certificates. */
  static ManagedChannel connect(String target, EpollEventLoopGroup group) throws SSLException {
    if (!target.startsWith("/")) {
      var own = GrpcSslContexts.forClient()
          .trustManager(new File(System.getenv("SEALCAR_TLS_CA")))
          .keyManager(new File(System.getenv("SEALCAR_TLS_CERT")), new File(System.getenv("SEALCAR_TLS_KEY")));
      return NettyChannelBuilder.forTarget(target).sslContext(own.build()).build();
    }
    return NettyChannelBuilder.forAddress(new DomainSocketAddress(target))
        .eventLoopGroup(group)
        .channelType(EpollDomainSocketChannel.class)
        .overrideAuthority("localhost")
        .usePlaintext()
        .build();
  }

  private static List<String> list(ManagedChannel line) {
    var store = PackageStoreGrpc.newBlockingStub(line);
    var names = new ArrayList<String>();
    var token = "";
    do {
      var page = store.list(ListRequest.newBuilder().setPageToken(token).build());
      page.getPackagesList().forEach(one -> names.add(one.getPackage().getName()));
      token = page.getNextPageToken();
    } while (!token.isEmpty());
    return names;
  }

  /** A payload counts only when its stream ended without an error, which the loop throws. */
  static ByteString read(ManagedChannel line, Scope scope, String name) {
    var whole = ByteString.EMPTY;
    var request = ReadRequest.newBuilder().setScope(scope).setName(name).build();
    var pieces = PayloadsGrpc.newBlockingStub(line).read(request);
    while (pieces.hasNext()) {
      whole = whole.concat(pieces.next().getData());
    }
    return whole;
  }

  private static void write(ManagedChannel line, WriteBegin begin, ByteString data) throws Exception {
    var done = new CompletableFuture<WriteResponse>();
    var stream = PayloadsGrpc.newStub(line).write(new StreamObserver<WriteResponse>() {
      @Override public void onNext(WriteResponse answer) {
        done.complete(answer);
      }

      @Override public void onError(Throwable error) {
        done.completeExceptionally(error);
      }

      @Override public void onCompleted() {}
    });
    stream.onNext(WriteRequest.newBuilder().setBegin(begin).build());
    for (int at = 0; at < data.size(); at += PIECE) {
      var piece = data.substring(at, Math.min(at + PIECE, data.size()));
      stream.onNext(WriteRequest.newBuilder().setData(piece).build());
    }
    stream.onCompleted();
    done.get(1, TimeUnit.MINUTES);
  }

  private static String talk(ManagedChannel line, Scope scope, String payload, String added) throws Exception {
    var payloads = PayloadsGrpc.newBlockingStub(line).withDeadlineAfter(1, TimeUnit.MINUTES);
    var names = list(line);
    var opened = payloads.open(OpenRequest.newBuilder().setScope(scope).build()).getScope();
    var data = read(line, opened, payload);
    var model = read(line, opened, "model.onnx");
    var target = scope.toBuilder().setVariant(added);
    var id = payloads.begin(BeginRequest.newBuilder().setScope(target).build()).getTransaction();
    var begin = WriteBegin.newBuilder().setTransaction(id);
    write(line, begin.setName("model.onnx").setKind(PayloadKind.PAYLOAD_KIND_MODEL).build(), model);
    write(line, begin.setName(payload).setKind(PayloadKind.PAYLOAD_KIND_BLOB).build(), data);
    var committed = payloads.commit(CommitRequest.newBuilder().setTransaction(id).setPayloads(2).build());
    var digest = MessageDigest.getInstance("SHA-256").digest(data.toByteArray());
    return String.format(
        "{\"packages\": [%s], \"sha256\": \"%s\", \"generation\": %d}",
        names.stream().map(name -> '"' + name + '"').collect(Collectors.joining(", ")),
        HexFormat.of().formatHex(digest),
        committed.getScope().getGeneration());
  }

  public static void main(String[] a) throws Exception {
    var group = new EpollEventLoopGroup(1);
    var line = connect(a[0], group);
    try {
      var scope = Scope.newBuilder()
          .setPackage(PackageRef.newBuilder().setName(a[1])).setComponent(a[2]).setVariant(a[3]).build();
      System.out.println(talk(line, scope, a[4], a[5]));
    } finally {
      line.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
      group.shutdownGracefully(0, 1, TimeUnit.SECONDS).await();
    }
  }
}
