package client;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import io.netty.channel.epoll.EpollEventLoopGroup;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import sealcar.v1.Common.PackageRef;
import sealcar.v1.Common.PayloadKind;
import sealcar.v1.Common.Scope;
import sealcar.v1.PayloadsGrpc;
import sealcar.v1.PayloadsOuterClass.OpenRequest;

/**
 * A sealed model in a session of Java's binding of ONNX Runtime: reads a row of floats as JSON, writes the answer.
 * Arguments: SOCKET PACKAGE COMPONENT VARIANT.
 *
 * <p>The binding takes a model's bytes and no files beside it, so the model is imported with its weights inside:
 * sealcar import --keep-inline.
 */
public final class Infer {
  private Infer() {}

  private static byte[] model(String socket, Scope scope) throws Exception {
    var group = new EpollEventLoopGroup(1);
    var line = Main.connect(socket, group);
    try {
      var payloads = PayloadsGrpc.newBlockingStub(line).withDeadlineAfter(1, TimeUnit.MINUTES);
      var opened = payloads.open(OpenRequest.newBuilder().setScope(scope).build());
      var model = opened.getVariant().getPayloadsList().stream()
          .filter(each -> each.getKind() == PayloadKind.PAYLOAD_KIND_MODEL)
          .findFirst()
          .orElseThrow();
      return Main.read(line, opened.getScope(), model.getName()).toByteArray();
    } finally {
      line.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
      group.shutdownGracefully(0, 1, TimeUnit.SECONDS).await();
    }
  }

  private static float[] infer(byte[] model, float[] row) throws OrtException {
    var runtime = OrtEnvironment.getEnvironment();
    try (var session = runtime.createSession(model);
        var x = OnnxTensor.createTensor(runtime, FloatBuffer.wrap(row), new long[] {1, row.length});
        var answers = session.run(Map.of("x", x))) {
      return ((float[][]) answers.get("y").orElseThrow().getValue())[0];
    }
  }

  public static void main(String[] a) throws Exception {
    var scope = Scope.newBuilder()
        .setPackage(PackageRef.newBuilder().setName(a[1])).setComponent(a[2]).setVariant(a[3]).build();
    var numbers = new Scanner(System.in).nextLine().replaceAll("[\\[\\]\\s]", "").split(",");
    var row = new float[numbers.length];
    for (int at = 0; at < row.length; at++) {
      row[at] = Float.parseFloat(numbers[at]);
    }
    System.out.println(Arrays.toString(infer(model(a[0], scope), row)));
  }
}
