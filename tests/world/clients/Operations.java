import com.google.gson.reflect.TypeToken;
import io.kubernetes.client.Exec;
import io.kubernetes.client.custom.V1Patch;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.JSON;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.apis.RbacAuthorizationV1Api;
import io.kubernetes.client.openapi.apis.VersionApi;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import io.kubernetes.client.util.PatchUtils;
import io.kubernetes.client.util.Watch;
import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/** The operations of the matrix with the official Java client: KUBECONFIG NAMESPACE. */
public class Operations {
  private static final String SET = "set=x";

  public static void main(String[] given) throws Exception {
    KubeConfig config = KubeConfig.loadKubeConfig(new FileReader(given[0]));
    ApiClient client = ClientBuilder.kubeconfig(config).build();
    CoreV1Api core = new CoreV1Api(client);
    String namespace = given[1];
    Map<String, Callable<Object>> operations = new LinkedHashMap<>();
    operations.put("version", () -> new VersionApi(client).getCode().execute().getGitVersion());
    operations.put(
        "name with a colon",
        () ->
            new RbacAuthorizationV1Api(client)
                .readClusterRole("system:node").execute().getMetadata().getName());
    operations.put(
        "create and get",
        () -> {
          for (String name : List.of("a", "b", "c")) {
            core.createNamespacedConfigMap(namespace, map(name).data(Map.of("k", name))).execute();
          }
          return core.readNamespacedConfigMap("b", namespace).execute().getData();
        });
    operations.put(
        "pages",
        () -> {
          var first = core.listNamespacedConfigMap(namespace).labelSelector(SET).limit(2).execute();
          var rest =
              core.listNamespacedConfigMap(namespace).labelSelector(SET).limit(2)
                  ._continue(first.getMetadata().getContinue()).execute();
          List<String> names = new ArrayList<>();
          first.getItems().forEach(item -> names.add(item.getMetadata().getName()));
          rest.getItems().forEach(item -> names.add(item.getMetadata().getName()));
          return names;
        });
    operations.put(
        "JSON patch",
        () ->
            patch(core, client, namespace, V1Patch.PATCH_FORMAT_JSON_PATCH,
                "[{\"op\": \"replace\", \"path\": \"/data/k\", \"value\": \"1\"}]"));
    operations.put(
        "strategic merge patch",
        () ->
            patch(core, client, namespace, V1Patch.PATCH_FORMAT_STRATEGIC_MERGE_PATCH,
                "{\"data\": {\"l\": \"2\"}}"));
    operations.put(
        "conflict",
        () -> {
          try {
            return core.createNamespacedConfigMap(namespace, map("a")).execute();
          } catch (ApiException error) {
            Map<?, ?> body = JSON.deserialize(error.getResponseBody(), Map.class);
            return List.of(error.getCode(), body.get("reason"));
          }
        });
    operations.put(
        "watch",
        () -> {
          List<String> names = new ArrayList<>();
          var call =
              core.listNamespacedConfigMap(namespace).labelSelector(SET).watch(true)
                  .timeoutSeconds(2).buildCall(null);
          var type = new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType();
          try (Watch<V1ConfigMap> watch = Watch.createWatch(client, call, type)) {
            watch.forEach(event -> names.add(event.object.getMetadata().getName()));
          }
          return names.stream().sorted().toList();
        });
    operations.put(
        "exec",
        () -> {
          Process process =
              new Exec(client).exec(namespace, "box", new String[] {"echo", "hello"}, false, false);
          byte[] output = process.getInputStream().readAllBytes();
          return new String(output, StandardCharsets.UTF_8);
        });
    operations.put(
        "logs", () -> !core.readNamespacedPodLog("box", namespace).execute().isEmpty());
    operations.put(
        "delete many",
        () ->
            core.deleteCollectionNamespacedConfigMap(namespace).labelSelector(SET)
                .execute().getKind());
    Map<String, Object> found = new LinkedHashMap<>();
    for (var operation : operations.entrySet()) {
      try {
        found.put(operation.getKey(), operation.getValue().call());
      } catch (Exception error) {
        found.put(operation.getKey(), error.toString());
      }
    }
    System.out.println(JSON.serialize(found));
    System.exit(0);
  }

  private static V1ConfigMap map(String name) {
    return new V1ConfigMap().metadata(new V1ObjectMeta().name(name).labels(Map.of("set", "x")));
  }

  private static Object patch(
      CoreV1Api core, ApiClient client, String namespace, String format, String body)
      throws ApiException {
    V1ConfigMap found =
        PatchUtils.patch(
            V1ConfigMap.class,
            () -> core.patchNamespacedConfigMap("a", namespace, new V1Patch(body)).buildCall(null),
            format,
            client);
    return found.getData();
  }
}
