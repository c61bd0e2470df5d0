import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.spark.sql.types.DataType;

/** Says of each line, a DDL in base 64, whether Spark takes it. */
public class ParseDdl {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String ddl = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            String said;
            try {
                DataType.fromDDL(ddl);
                said = "taken";
            } catch (Throwable wrong) {
                said = "refused";
            }
            System.out.println(said);
        }
    }
}
